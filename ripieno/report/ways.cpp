#include "ripieno/report/ways.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "ripieno/core/error.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

/// A run's number and its source line.
struct Measured {
  double value = 0;
  Source source;
};
using OfRun = std::function<std::optional<Measured>(const Run&)>;

std::optional<Estimate> estimate(const Cell& cell, const OfRun& of) {
  std::vector<SeedNumber> values;
  std::optional<Source> source;
  for (const Run* run : cell.runs) {
    const auto number = of(*run);
    if (!number) continue;
    values.emplace_back(run->summary.seed, number->value);
    if (!source) source = number->source;
  }
  if (values.empty()) return std::nullopt;
  const std::vector<SeedNumber> seeds = by_seed(values);
  const std::vector<double> numbers = numbers_of(seeds);
  return Estimate{mean(numbers), interval95(numbers), numbers.size(), *source, seeds};
}

/// A stage of the workers that lived to the end.
struct StageOfWorkers {
  double stage = 0, all = 0;  ///< seconds, sums: of the stage, and of the time in which it was
  std::size_t workers = 0;
  Source source;
};
std::optional<StageOfWorkers> stage_of_workers(const Run& run, observe::Stage stage) {
  StageOfWorkers found;
  const auto workers = run.workers();
  const auto& ranks = run.summary.ranks;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const RankSummary& one = ranks[place];
    if (std::find(workers.begin(), workers.end(), one.rank) == workers.end()) continue;
    found.stage += one.seconds.stages[stage];
    found.all += run.summary.unfinished ? one.seconds.stages.steps()  // whose epochs are only those that have ended
                                        : std::accumulate(one.seconds.epoch.begin(), one.seconds.epoch.end(), 0.0);
    if (found.workers++ == 0)
      found.source = run.source({"ranks", std::to_string(place), "seconds", "stages", observe::info(stage).name});
  }
  if (found.workers == 0 || run.summary.epochs == 0) return std::nullopt;
  return found;
}

}  // namespace

constexpr double least_seconds = 2;  // of samples: the system counts CPU in ticks of some 10 ms

std::optional<double> used_by_others(const Run& run) {
  struct Use {
    double own = 0;                         // cores, by the run's ranks
    double busy = 0, all = 0, seconds = 0;  // CPU seconds of the machine, in samples of one of them
  };
  std::map<std::string, Use> machines;
  for (const Metrics& rank : run.ranks) {
    if (!rank.start) continue;
    Use& machine = machines[rank.start->host];
    double own = 0, busy = 0, all = 0, seconds = 0;
    for (const SampleLine& sample : rank.samples) {
      own += sample.cpu_user + sample.cpu_system;
      const double used = sample.machine_user + sample.machine_system + sample.machine_stolen;
      busy += used;
      all += used + sample.machine_idle;
      seconds += sample.seconds;
    }
    if (seconds < least_seconds) continue;
    machine.own += own / seconds;
    if (seconds > machine.seconds) machine = {machine.own, busy, all, seconds};
  }
  std::optional<double> most;
  for (const auto& [host, machine] : machines) {
    if (machine.all <= 0) continue;
    const double others = std::max(0.0, machine.busy - machine.own * machine.seconds) / machine.all;
    most = std::max(most.value_or(0), others);
  }
  return most;
}

std::vector<double> training_seconds(const Run& run) {
  std::vector<double> found;
  const auto workers = run.workers();
  double sum = 0;
  for (std::size_t epoch = 0; epoch < run.ranks.at(0).epochs.size(); ++epoch) {
    double longest = 0;
    for (const int rank : workers) {
      const auto& epochs = run.ranks[static_cast<std::size_t>(rank)].epochs;
      if (epoch < epochs.size()) longest = std::max(longest, epochs[epoch].seconds);
    }
    found.push_back(sum += longest);
  }
  return found;
}

Estimate images_a_second(const Cell& cell) {
  return *estimate(cell, [](const Run& run) -> std::optional<Measured> {
    return Measured{run.summary.images_per_second, run.source({"images_per_second"})};
  });
}

std::optional<Estimate> epoch_seconds(const Cell& cell) {
  return estimate(cell, [](const Run& run) -> std::optional<Measured> {
    const auto epoch = run.summary.epoch_seconds();
    if (!epoch) return std::nullopt;
    return Measured{*epoch, run.source({"seconds", "epoch"})};
  });
}

std::optional<Estimate> exposed_seconds(const Cell& cell) {
  return estimate(cell, [](const Run& run) -> std::optional<Measured> {
    const auto epoch = run.summary.epoch_seconds();
    const auto exchange = stage_of_workers(run, observe::Stage::exchange);
    if (!epoch || !exchange) return std::nullopt;
    return Measured{exchange->all > 0 ? *epoch * exchange->stage / exchange->all : 0, exchange->source};
  });
}

std::optional<Estimate> evaluation_seconds(const Cell& cell) {
  return estimate(cell, [](const Run& run) -> std::optional<Measured> {
    const auto evaluation = stage_of_workers(run, observe::Stage::evaluate);
    if (!evaluation) return std::nullopt;
    return Measured{evaluation->stage / static_cast<double>(evaluation->workers) / run.summary.epochs,
                    evaluation->source};
  });
}

std::optional<Estimate> busiest_bytes(const Cell& cell) {
  return estimate(cell, [](const Run& run) -> std::optional<Measured> {
    const auto& ranks = run.summary.ranks;
    if (ranks.empty() || run.summary.epochs == 0 || !run.summary.knows_sent()) return std::nullopt;
    const auto less = [](const RankSummary& a, const RankSummary& b) {
      return a.exchange_payload_sent < b.exchange_payload_sent;
    };
    const auto busiest = std::max_element(ranks.begin(), ranks.end(), less);
    return Measured{static_cast<double>(busiest->exchange_payload_sent) / run.summary.epochs,
                    run.source({"ranks", std::to_string(busiest - ranks.begin()), "exchange", "payload_sent"})};
  });
}

std::optional<Estimate> final_accuracy(const Cell& cell) {
  return estimate(cell, [](const Run& run) -> std::optional<Measured> {
    if (!run.summary.test) return std::nullopt;
    return Measured{100 * run.summary.test->accuracy, run.source({"test", "accuracy"})};
  });
}

std::optional<Estimate> evaluation_bytes(const Cell& cell) {
  return estimate(cell, [](const Run& run) -> std::optional<Measured> {
    if (!run.summary.evaluation_payload_sent) return std::nullopt;
    return Measured{static_cast<double>(*run.summary.evaluation_payload_sent),
                    run.source({"evaluation", "payload_sent"})};
  });
}

std::optional<Estimate> reached_accuracy(const Cell& cell) {
  std::optional<Estimate> lowest;
  for (const Run* run : cell.runs) {
    std::optional<Estimate> highest;
    for (const EpochLine& epoch : run->ranks.at(0).epochs) {
      if (!epoch.test || (highest && 100 * epoch.test->accuracy <= highest->middle)) continue;
      highest = Estimate{100 * epoch.test->accuracy, 0, 1, {run->ranks[0].file, epoch.line}};
    }
    if (!highest) return std::nullopt;
    if (!lowest || highest->middle < lowest->middle) lowest = highest;
  }
  return lowest;
}

std::optional<Estimate> seconds_to(const Cell& cell, double percent) {
  const OfRun first = [percent](const Run& run) -> std::optional<Measured> {
    const auto& epochs = run.ranks.at(0).epochs;
    const auto there = [&](const EpochLine& epoch) { return epoch.test && 100 * epoch.test->accuracy >= percent; };
    const auto at = std::find_if(epochs.begin(), epochs.end(), there);
    if (at == epochs.end()) return std::nullopt;
    return Measured{training_seconds(run)[static_cast<std::size_t>(at - epochs.begin())],
                    {run.ranks[0].file, at->line}};
  };
  const bool all =
      std::all_of(cell.runs.begin(), cell.runs.end(), [&](const Run* run) { return first(*run).has_value(); });
  return all ? estimate(cell, first) : std::nullopt;
}

}  // namespace ripieno::report
