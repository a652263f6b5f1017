#include "ripieno/report/setting.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"

namespace ripieno::report {
namespace {

constexpr const char* keys[] = {"transport.kind",     "transport.mbit_s", "transport.delay_ms",
                                "lab.nodes",          "lab.mbit_s",       "lab.cpu",
                                "lab.slow",           "simulated.mbit_s", "simulated.latency_us",
                                "simulated.image_us", "simulated.slow",   "simulated.slow_all",
                                "batch.global",       "batch.per_worker", "data.train_samples",
                                "data.test_samples",  "train.epochs",     "train.precision",
                                "train.threads",      "train.device"};

/// "" if it was not read.
std::string given(const Run& run, const std::string& key) {
  const auto found = run.settings.find(key);
  return found == run.settings.end() ? "" : found->second;
}

double given_number(const Run& run, const std::string& key) { return std::strtod(given(run, key).c_str(), nullptr); }

/// Without nodes the lab's other keys have no effect.
bool has_lab(const Run& run) { return given_number(run, "lab.nodes") > 0; }

std::string bits_a_second(double mega) { return format_short(mega) + " Mb/s"; }

/// How ranks reached each other in a run without slowed links.
std::string plain_link(const Run& run) {
  std::set<std::string> ways;
  for (const RankSummary& rank : run.summary.ranks) {
    for (const std::string& way : rank.ways) ways.insert(way.starts_with("tcp") ? "TCP" : way);
  }
  ways.erase("");  // to itself
  const bool memory = ways.erase("shared memory") > 0;
  if (memory && ways.empty()) return one_machine_link;
  std::string words = memory ? "shared memory" : "";
  for (const std::string& way : ways) words += (words.empty() ? "" : " and ") + way;
  return words;
}

}  // namespace

std::string link_of(const Run& run) {
  if (given(run, "transport.kind") == "\"simulated\"") {
    return text(bits_a_second(given_number(run, "simulated.mbit_s")), " links, ",
                format_short(given_number(run, "simulated.latency_us")), " µs, in virtual time");
  }
  const double nodes = given_number(run, "lab.nodes"), lab = given_number(run, "lab.mbit_s"),
               rank = given_number(run, "transport.mbit_s");
  std::string link;
  if (nodes > 0) {
    link = text(format_short(nodes), " emulated machines", lab > 0 ? ", " + bits_a_second(lab) + " each" : "");
  } else if (rank > 0) {
    link = bits_a_second(rank) + " a rank";
  } else {
    link = plain_link(run);
  }
  const double delay = given_number(run, "transport.delay_ms");
  if (delay > 0) link += text(link.empty() ? "" : ", ", format_short(delay), " ms a message");
  return link;
}

std::string link_limits_of(const Run& run) {
  if (given(run, "transport.kind") == "\"simulated\"") {
    return text(bits_a_second(given_number(run, "simulated.mbit_s")), ", ",
                format_short(given_number(run, "simulated.latency_us")), " µs");
  }
  std::string limits;
  for (const char* key : {"lab.mbit_s", "transport.mbit_s"}) {
    if (!has_lab(run) && std::string_view(key).starts_with("lab.")) continue;
    if (const double rate = given_number(run, key); rate > 0)
      limits += (limits.empty() ? "" : ", ") + bits_a_second(rate);
  }
  if (const double delay = given_number(run, "transport.delay_ms"); delay > 0)
    limits += text(limits.empty() ? "" : ", ", format_short(delay), " ms");
  return limits;
}

std::string slowness_of(const Run& run) {
  const bool is_virtual = given(run, "transport.kind") == "\"simulated\"";
  std::string slow = given(run, is_virtual ? "simulated.slow" : "lab.slow");
  std::vector<double> factors;
  for (std::size_t at = 0; at < slow.size(); ++at) {
    char* end = nullptr;
    const double factor = std::strtod(slow.c_str() + at, &end);
    if (end == slow.c_str() + at) continue;
    factors.push_back(factor);
    at = static_cast<std::size_t>(end - slow.c_str());
  }
  factors.resize(std::max(factors.size(), run.ranks.size()), 1);  // missing: 1
  const double all =
      is_virtual && !given(run, "simulated.slow_all").empty() ? given_number(run, "simulated.slow_all") : 1;
  std::set<double> distinct;
  for (const int worker : run.workers()) distinct.insert(all * factors[static_cast<std::size_t>(worker)]);
  if (distinct.empty() || distinct == std::set<double>{1}) return "";
  if (distinct.size() == 1) return text("compute ", format_short(*distinct.begin()), " times as slow");
  return text("compute ", slow, all == 1 ? "" : text(" times ", format_short(all)), " times as slow");
}

std::string cores_of(const Run& run) {
  std::string limits;
  if (const double cores = given_number(run, "lab.cpu"); cores > 0 && has_lab(run))
    limits = text(format_short(cores), cores == 1 ? " core a node" : " cores a node");
  if (const double threads = given_number(run, "train.threads"); threads > 1)
    limits += text(limits.empty() ? "" : ", ", format_short(threads), " threads a worker");
  return limits;
}

std::span<const char* const> setting_keys() { return keys; }

std::string setting_value(const Run& run, const std::string& key) {
  const std::string value = given(run, key);
  if (value.empty()) return "";
  if (key.ends_with(".mbit_s")) return given_number(run, key) > 0 ? bits_a_second(given_number(run, key)) : "no limit";
  const std::string word = value.starts_with('"') && value.size() > 1 ? value.substr(1, value.size() - 2) : value;
  const bool of_setting = std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
  return text(of_setting ? key.substr(key.find('.') + 1) : key, ' ', word);
}

Concern concern_of(const std::string& key) {
  const auto in = [&key](std::initializer_list<std::string_view> all) {
    return std::any_of(all.begin(), all.end(),
                       [&key](std::string_view one) { return one.ends_with('.') ? key.starts_with(one) : key == one; });
  };
  if (in({"seed", "run.", "data.folder", "data.cache", "transport.listen", "transport.interface",
          "transport.timeout_s"}))
    return Concern::nothing;
  if (in({"strategy", "passes", "exchange.", "codec.", "ps.", "fedavg.", "local.", "outer."}))
    return Concern::agreement;
  if (in({"workers", "batch.", "lab.nodes", "lab.slow", "simulated.slow"})) return Concern::workers;
  if (in({"transport.", "lab.", "simulated.", "train.threads", "measure."})) return Concern::place;
  return in({"learning_rate."}) ? Concern::rate : Concern::training;
}

std::string settings_of(const Run& run, std::initializer_list<Concern> concerns) {
  std::string all;
  for (const auto& [key, value] : run.settings) {
    if (std::find(concerns.begin(), concerns.end(), concern_of(key)) != concerns.end())
      all += text(key, ' ', value, '\n');
  }
  return all;
}

std::set<std::string> different_keys(const std::vector<const Run*>& runs) {
  constexpr std::string_view named[] = {"model", "strategy", "workers", "data.name", "exchange.codec"};
  std::set<std::string> all, different;
  for (const Run* run : runs) {
    for (const auto& [key, value] : run->settings) all.insert(key);
  }
  for (const std::string& key : all) {
    if (concern_of(key) == Concern::nothing || std::find(std::begin(named), std::end(named), key) != std::end(named))
      continue;
    const std::string first = given(*runs.at(0), key);
    if (std::any_of(runs.begin(), runs.end(), [&](const Run* run) { return given(*run, key) != first; }))
      different.insert(key);
  }
  return different;
}

/// The batch that was asked for, since a worker with its own data may have fewer samples in a step. Without settings,
/// the first step's.
std::string batch_in_words(const Run& run) {
  if (const double all = given_number(run, "batch.global"); all > 0) return text(", batch ", format_short(all));
  if (const double own = given_number(run, "batch.per_worker"); own > 0)
    return text(", batch ", format_short(own), " a worker");
  return run.batch() > 0 ? text(", batch ", run.batch()) : "";
}

std::string setting_of(const Run& run) {
  const Summary& one = run.summary;
  std::string all =
      text(one.model, '\n', one.dataset, '\n', one.kind, '\n', one.unfinished, '\n', run.workers().size());
  for (const char* key : keys) all += '\n' + given(run, key);
  if (run.own_loop) {
    for (const auto& [key, value] : run.settings) all += '\n' + key + '\n' + value;
  }
  return all;
}

std::string setting_in_words(const Run& run) {
  const Summary& one = run.summary;
  const std::size_t workers = run.workers().size();
  std::string words = text(one.model, " on ", one.dataset);
  if (workers > 0) words += text(", ", workers, workers == 1 ? " worker" : " workers");
  words += batch_in_words(run);
  words += text(", ", format_short(one.epochs), one.epochs == 1 ? " epoch" : " epochs");
  if (const std::string link = workers > 1 ? link_of(run) : ""; !link.empty()) words += ", " + link;
  if (const std::string slow = slowness_of(run); !slow.empty()) words += ", " + slow;
  if (one.kind == "replayed") words += ", compute times replayed";
  if (one.kind == "projected") words += ", projected from measured compute times";
  if (one.unfinished) words += ", unfinished";
  return words;
}

}  // namespace ripieno::report
