#include "ripieno/report/run.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "ripieno/report/looks.h"
#include "ripieno/report/setting.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {

std::string folder_name(const std::filesystem::path& folder) {
  const auto whole = std::filesystem::absolute(folder).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

std::vector<int> Run::workers() const {
  std::vector<int> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const StepLine& step : ranks[rank].steps) {
      if (step.seconds[observe::Stage::forward] <= 0 && step.seconds[observe::Stage::other] <= 0) continue;
      found.push_back(static_cast<int>(rank));
      break;
    }
  }
  return found;
}

std::vector<const Metrics*> Run::all_ranks() const {
  std::vector<const Metrics*> found;
  for (const Metrics& rank : ranks) found.push_back(&rank);
  return found;
}

bool Run::is_on_network() const {
  for (const Metrics& rank : ranks) {
    for (const SampleLine& sample : rank.samples) {
      if (sample.bytes_sent > 0) return true;
    }
  }
  return false;
}

std::vector<const Metrics*> Run::nodes() const {
  std::vector<const Metrics*> found;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Metrics& rank : ranks) {
    const bool named = rank.start && !rank.start->network.empty();
    if (!named || seen.emplace(rank.start->host, rank.start->network).second) found.push_back(&rank);
  }
  return found;
}

std::uint64_t Run::batch() const {
  std::uint64_t samples = 0;
  for (const int rank : workers())
    samples += ranks[static_cast<std::size_t>(rank)].steps.front().samples;  // a server's lines repeat its workers'
  return samples;
}

/// summary.json is indented by two spaces per level, which gives a member's level.
Source Run::source(const std::vector<std::string>& field) const {
  if (summary_text.empty()) return {folder / "metrics-0.jsonl", 1};
  std::size_t at = 0;
  for (std::size_t level = 0; level < field.size(); ++level) {
    const std::string indent(2 * (level + 1), ' ');
    if (level == 1 && field[0] == "ranks") {  // an item of a list, by its index
      for (int place = std::stoi(field[1]); place >= 0 && at != std::string::npos; --place)
        at = summary_text.find(text('\n', indent, '{'), at + 1);
    } else {
      at = summary_text.find(text('\n', indent, '"', field[level], "\":"), at);
    }
    if (at == std::string::npos) return {summary_file(), 1};
  }
  if (field.empty()) return {summary_file(), 1};
  return {summary_file(), 2 + static_cast<std::size_t>(std::count(
                                  summary_text.begin(), summary_text.begin() + static_cast<std::ptrdiff_t>(at), '\n'))};
}

bool is_finished(const std::filesystem::path& folder) { return std::filesystem::exists(folder / "summary.json"); }

Run read_run(const std::filesystem::path& folder) {
  Run run;
  run.folder = folder;
  if (!is_finished(folder)) {
    const bool is_run = std::filesystem::exists(folder / "config.toml");
    fail(
        ErrorKind::data, folder.string(),
        is_run ? ": the run has not ended: it has no summary.json" : ": is not a run's folder: it has no summary.json");
  }
  run.summary_text = read_file(run.summary_file());
  run.summary = from_json(run.summary_text, run.summary_file());
  const auto& ended = run.summary.ranks;
  for (int rank = 0; rank < run.summary.world_size; ++rank) {
    const std::filesystem::path file = folder / text("metrics-", rank, ".jsonl");
    const bool is_lost = !ended.empty() && std::none_of(ended.begin(), ended.end(),
                                                        [rank](const RankSummary& one) { return one.rank == rank; });
    const bool is_missing = is_lost && !std::filesystem::exists(file);  // on a host that shares no folder
    run.ranks.push_back(is_missing ? Metrics() : read_metrics(file));
  }
  return run;
}

namespace {

using Property = std::function<std::string(const Run&)>;

/// What cells of one name may differ in, what says most of them first.
std::vector<Property> properties_of(const std::vector<const Run*>& runs) {
  std::vector<Property> all{
      [](const Run& run) { return run.summary.model; }, [](const Run& run) { return run.summary.dataset; },
      [](const Run& run) { return text(run.summary.world_size, run.summary.world_size == 1 ? " rank" : " ranks"); },
      [](const Run& run) { return run.summary.codec; }, [](const Run& run) { return run.summary.strategy; }};
  std::set<std::string> others = different_keys(runs);
  const auto add = [&](const std::string& key) {
    all.emplace_back([key](const Run& run) { return setting_value(run, key); });
    others.erase(key);
  };
  for (const char* key : setting_keys()) add(key);
  for (const std::string& key : std::set(others)) add(key);
  return all;
}

/// The fewest properties, chosen one after the other, that tell all runs apart, in the order given: each time the one
/// that tells most of them apart; if several do, one that no run lacks, and then the first.
std::vector<std::size_t> telling_apart(const std::vector<const Run*>& runs, const std::vector<Property>& properties) {
  std::vector<std::string> told(runs.size());  // what the chosen properties say of each
  const auto classes = [](const std::vector<std::string>& values) {
    return std::set(values.begin(), values.end()).size();
  };
  std::vector<std::size_t> chosen;
  while (classes(told) < runs.size()) {
    std::pair<std::size_t, bool> most{classes(told), true};
    std::size_t best = properties.size();
    std::vector<std::string> then = told;
    for (std::size_t i = 0; i < properties.size(); ++i) {
      std::vector<std::string> values = told;
      bool is_known = true;
      for (std::size_t run = 0; run < runs.size(); ++run) {
        const std::string value = properties[i](*runs[run]);
        is_known &= !value.empty();
        values[run] += '\n' + value;
      }
      if (std::pair(classes(values), is_known) <= most || classes(values) == classes(told)) continue;
      most = {classes(values), is_known};
      best = i;
      then = std::move(values);
    }
    if (best == properties.size()) break;  // they differ in nothing that has a name
    chosen.push_back(best);
    told = std::move(then);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// If several cells share a name, appends the least that tells them apart.
void add_differences(std::vector<Cell>& cells) {
  std::map<std::string, std::vector<Cell*>> named;
  for (Cell& cell : cells) named[cell.first().summary.name].push_back(&cell);
  for (const auto& [name, alike] : named) {
    if (alike.size() < 2) continue;
    std::vector<const Run*> runs;
    for (const Cell* cell : alike) runs.push_back(&cell->first());
    const std::vector<Property> properties = properties_of(runs);
    for (const std::size_t chosen : telling_apart(runs, properties)) {
      for (Cell* cell : alike) {
        if (const std::string value = properties[chosen](cell->first()); !value.empty()) cell->name += ", " + value;
      }
    }
  }
}

/// Appends the mark of a cell's kind (not from training), if cells differ in it.
void add_marks(std::vector<Cell>& cells) {
  std::vector<std::string> marks;
  for (const Cell& cell : cells) {
    std::vector<const Summary*> seeds;
    for (const Run* run : cell.runs) seeds.push_back(&run->summary);
    marks.push_back(mark_of(seeds));
  }
  const bool alike = std::all_of(marks.begin(), marks.end(), [&](const std::string& mark) { return mark == marks[0]; });
  for (std::size_t i = 0; i < cells.size() && !alike; ++i) cells[i].name += marks[i];
}

}  // namespace

std::vector<Cell> cells(const std::vector<Run>& runs) {
  std::vector<Cell> found;
  std::map<std::string, std::size_t> index;
  for (const Run& run : runs) {
    const std::string settings =
        settings_of(run, {Concern::agreement, Concern::place, Concern::workers, Concern::rate, Concern::training});
    const auto [at, is_new] =
        index.emplace(text(cell_of(run.summary), '\n', setting_of(run), '\n', settings), found.size());
    if (is_new) {
      found.emplace_back();
      found.back().name = run.summary.name;
    }
    found[at->second].runs.push_back(&run);
  }
  add_differences(found);
  add_marks(found);
  give_looks(found);
  return found;
}

std::vector<std::string> names_of(const std::vector<Cell>& cells) {
  std::vector<std::string> names;
  for (const Cell& cell : cells) names.push_back(cell.name);
  return names;
}

std::vector<double> seeds_of(const Cell& cell, const std::function<std::optional<double>(const Run&)>& value) {
  std::vector<SeedNumber> found;
  for (const Run* run : cell.runs) {
    if (const auto one = value(*run)) found.emplace_back(run->summary.seed, *one);
  }
  return numbers_of(by_seed(found));
}

std::string counted_steps(const std::vector<const Run*>& runs) {
  const auto fewer = [](const Run* a, const Run* b) { return a->summary.steps_left_out < b->summary.steps_left_out; };
  if (runs.empty()) return "";
  const auto [least, most] = std::minmax_element(runs.begin(), runs.end(), fewer);
  const std::uint64_t few = (*least)->summary.steps_left_out, many = (*most)->summary.steps_left_out;
  if (many == 0) return "Rates and means count all steps.";
  return text("Rates, and means over steps and seconds, leave out each worker's first ",
              few == many ? "" : text(few, " to "), many, many == 1 ? " step." : " steps.");
}

std::string counted_steps(const std::vector<Cell>& cells) {
  std::vector<const Run*> runs;
  for (const Cell& cell : cells) runs.insert(runs.end(), cell.runs.begin(), cell.runs.end());
  return counted_steps(runs);
}

}  // namespace ripieno::report
