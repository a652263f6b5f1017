// The data of TensorBoard's hparams tab, by which it compares runs.
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "ripieno/report/event_file.h"
#include "ripieno/report/tensorboard.h"
#include "ripieno/report/ways.h"

namespace ripieno::report {
namespace {

using event_file::field;

constexpr const char* plugin = "hparams";

/// plugin_data.proto's HParamsPluginData: version = 0, which is not written, and one of these.
enum class Part { experiment = 2, session_start = 3, session_end = 4 };

std::string hparams_event(double wall_time, const char* tag, Part part, const std::string& content) {
  return event_file::plugin_data(wall_time, tag, plugin, field(static_cast<int>(part), content));
}

/// A run's properties and every key of its settings, in TOML. Folders and names do not matter for training.
std::map<std::string, std::string> all_of(const Run& run) {
  std::map<std::string, std::string> all = run.settings;
  for (const char* key : {"run.folder", "run.name", "data.folder", "data.cache"}) all.erase(key);
  const auto quoted = [](const std::string& text) { return '"' + text + '"'; };
  all["strategy"] = quoted(run.summary.strategy);
  all["exchange.codec"] = quoted(run.summary.codec);
  all["model"] = quoted(run.summary.model);
  all["data.name"] = quoted(run.summary.dataset);
  all["ranks"] = std::to_string(run.summary.world_size);
  all["seed"] = std::to_string(run.summary.seed);
  return all;
}

/// The strategy, the codec, and everything else in which runs differ.
std::set<std::string> compared_keys(const std::vector<Run>& runs) {
  std::map<std::string, std::set<std::string>> values;
  for (const Run& run : runs) {
    for (const auto& [key, value] : all_of(run)) values[key].insert(value);
  }
  std::set<std::string> keys{"strategy", "exchange.codec"};
  for (const auto& [key, different] : values) {
    if (different.size() > 1) keys.insert(key);
  }
  return keys;
}

std::optional<double> as_number(const std::string& toml) {
  double value = 0;
  const auto [end, error] = std::from_chars(toml.data(), toml.data() + toml.size(), value);
  if (error != std::errc() || end != toml.data() + toml.size()) return std::nullopt;
  return value;
}

bool is_truth(const std::string& toml) { return toml == "true" || toml == "false"; }

/// api.proto's DataType.
std::uint64_t type_of(const std::string& toml) { return is_truth(toml) ? 2 : as_number(toml) ? 3 : 1; }

/// google.protobuf.Value: number_value = 2, string_value = 3, bool_value = 4.
std::string value_of(const std::string& toml) {
  if (is_truth(toml)) return field(4, std::uint64_t{toml == "true"});
  if (const auto number = as_number(toml)) return field(2, *number);
  const bool is_string = toml.size() > 1 && toml.front() == '"';
  return field(3, is_string ? toml.substr(1, toml.size() - 2) : toml);
}

struct SessionMeasure {
  const char* tag;
  const char* title;
  std::optional<Estimate> (*of)(const Cell& cell);
  double unit;
};
constexpr SessionMeasure session_measures[] = {
    {"run/accuracy", "accuracy, %", final_accuracy, 1},
    {"run/s_epoch", "s an epoch", epoch_seconds, 1},
    {"run/s_waiting", "of it waiting for the exchange", exposed_seconds, 1},
    {"run/mb_epoch_busiest", "MB an epoch, busiest rank", busiest_bytes, 1e-6},
    {"run/s_evaluation", "evaluation, s an epoch", evaluation_seconds, 1}};

double began(const Run& run) { return run.ranks.at(0).start ? run.ranks[0].start->unix_time : 0; }

}  // namespace

std::string tensorboard_experiment(const std::vector<Run>& runs) {
  // Experiment{hparam_infos = 4{name = 1, type = 4}, metric_infos = 5{name = 1{tag = 2}, display_name = 3}}
  std::string experiment;
  for (const std::string& key : compared_keys(runs)) {
    std::uint64_t type = 0;
    for (const Run& run : runs) {
      const auto all = all_of(run);
      if (const auto found = all.find(key); found != all.end()) type = type_of(found->second);
    }
    experiment += field(4, field(1, key) + field(4, type));
  }
  for (const SessionMeasure& one : session_measures)
    experiment += field(5, field(1, field(2, std::string(one.tag))) + field(3, std::string(one.title)));
  const double time = runs.empty() ? 0 : began(runs[0]);
  return event_file::beginning(time) + hparams_event(time, "_hparams_/experiment", Part::experiment, experiment);
}

std::string tensorboard_session(const Run& run, const std::vector<Run>& runs) {
  const double time = began(run), end = time + run.summary.seconds.total;
  // SessionStartInfo{hparams = 1{key = 1, value = 2}, start_time_secs = 5}
  std::string start;
  const auto all = all_of(run);
  for (const std::string& key : compared_keys(runs)) {
    if (const auto found = all.find(key); found != all.end())
      start += field(1, field(1, key) + field(2, value_of(found->second)));
  }
  start += field(5, time);
  Cell cell;
  cell.runs = {&run};
  event_file::Scalars scalars;
  for (const SessionMeasure& one : session_measures) {
    if (const auto number = one.of(cell)) scalars.emplace_back(one.tag, one.unit * number->middle);
  }
  std::string out =
      event_file::beginning(time) + hparams_event(time, "_hparams_/session_start_info", Part::session_start, start);
  out += event_file::scalars(end, run.summary.steps, scalars);
  // SessionEndInfo{status = 1, end_time_secs = 2}: STATUS_SUCCESS = 1, STATUS_UNKNOWN = 0
  return out + hparams_event(end, "_hparams_/session_end_info", Part::session_end,
                             field(1, std::uint64_t{run.summary.unfinished ? 0u : 1u}) + field(2, end));
}

}  // namespace ripieno::report
