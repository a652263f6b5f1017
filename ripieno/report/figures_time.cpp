// Where the time went: stages, exchange, CPU and network.
#include <algorithm>
#include <functional>
#include <iterator>

#include "ripieno/core/error.h"
#include "ripieno/report/figures.h"
#include "ripieno/report/statistics.h"

namespace ripieno {
namespace {

struct Stage {
  const char* name;
  double StageSeconds::*seconds;
};
constexpr Stage step_stages[] = {{"read", &StageSeconds::read},
                                 {"forward", &StageSeconds::forward},
                                 {"backward", &StageSeconds::backward},
                                 {"exchange, waited for", &StageSeconds::exchange},
                                 {"optimise", &StageSeconds::optimise}};

/// Milliseconds a step, the mean over the workers' steps of a run.
double a_step(const Run& run, double StageSeconds::*stage) {
  double sum = 0, steps = 0;
  for (const int rank : run.workers()) {
    for (const StepLine& step : run.ranks[static_cast<std::size_t>(rank)].steps) {
      sum += step.seconds.*stage;
      steps += 1;
    }
  }
  return steps > 0 ? 1e3 * sum / steps : 0;
}

double mean_of(const Cell& cell, const std::function<double(const Run&)>& value) {
  std::vector<double> all;
  for (const Run* run : cell) all.push_back(value(*run));
  return mean(all);
}

bool has_steps(const Cell& cell) {
  return std::any_of(cell.begin(), cell.end(), [](const Run* run) { return !run->workers().empty(); });
}

/// Keeps the cells that `has` says something of.
std::vector<Cell> those(const std::vector<Cell>& cells, const std::function<bool(const Cell&)>& has) {
  std::vector<Cell> kept;
  std::copy_if(cells.begin(), cells.end(), std::back_inserter(kept), has);
  return kept;
}

/// Where there is a network beside the loopback, what goes over that; else over the loopback.
bool is_on_network(const Run& run) {
  for (const Metrics& rank : run.ranks) {
    for (const SampleLine& sample : rank.samples) {
      if (sample.bytes_sent > 0) return true;
    }
  }
  return false;
}

bool has_samples(const Run& run) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), [](const Metrics& rank) { return !rank.samples.empty(); });
}

bool have_samples(const Cell& cell) { return std::any_of(cell.begin(), cell.end(), [](const Run* run) { return has_samples(*run); }); }

std::vector<Series> over_time(const Run& run, const std::function<double(const SampleLine&)>& value) {
  std::vector<Series> found;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    Series series{text("rank ", rank), {{}}, {}, {}, {}, {}};
    for (const SampleLine& sample : run.ranks[rank].samples) {
      if (sample.seconds <= 0) continue;
      series.x[0].push_back(sample.time);
      series.y.push_back(value(sample));
      series.sources.push_back({run.ranks[rank].file, sample.line});
    }
    if (!series.y.empty()) found.push_back(std::move(series));
  }
  return found;
}

/// A sum over all samples of a run's ranks, a second of a rank.
double a_second(const Run& run, const std::function<double(const SampleLine&)>& amount) {
  double sum = 0, seconds = 0;
  for (const Metrics& rank : run.ranks) {
    for (const SampleLine& sample : rank.samples) {
      sum += amount(sample);
      seconds += sample.seconds;
    }
  }
  return seconds > 0 ? sum / seconds : 0;
}

Series bar(const std::string& name, const std::vector<Cell>& cells, const std::function<double(const Run&)>& value) {
  Series series{name, {}, {}, {}, {}, {}};
  for (const Cell& cell : cells) {
    series.y.push_back(mean_of(cell, value));
    series.sources.push_back(cell[0]->source({"seconds", "stages"}));
  }
  return series;
}

}  // namespace

Figure stages_figure(const std::vector<Cell>& all) {
  const auto cells = those(all, has_steps);
  Figure figure{"stages", "A step by stage", "Mean over steps, workers and seeds. Exchange: as far as compute waited for it.", Form::stacked_bars,
                {"cell"}, "ms a step", cell_names(cells), {}};
  if (cells.empty()) return figure;
  for (const Stage& stage : step_stages) {
    figure.series.push_back(bar(stage.name, cells, [&](const Run& run) { return a_step(run, stage.seconds); }));
  }
  return figure;
}

Figure blocks_figure(const Run& run, std::size_t steps_a_block) {
  Figure figure{"blocks", text("Stages over time: ", run.summary.name), text("A bar for each block of ", steps_a_block, " steps: what they took together, mean over workers."),
                Form::stacked_bars, {"steps"}, "s a block", {}, {}};
  const auto workers = run.workers();
  if (workers.empty()) return figure;
  std::size_t steps = 0;
  for (const int rank : workers) steps = std::max(steps, run.ranks[static_cast<std::size_t>(rank)].steps.size());
  const std::size_t blocks = (steps + steps_a_block - 1) / steps_a_block;
  for (std::size_t block = 0; block < blocks; ++block) {
    figure.categories.push_back(text(block * steps_a_block, " – ", std::min(steps, (block + 1) * steps_a_block) - 1));
  }
  for (const Stage& stage : step_stages) {
    Series series{stage.name, {}, std::vector<double>(blocks), {}, {}, std::vector<Source>(blocks)};
    for (const int rank : workers) {
      const Metrics& metrics = run.ranks[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < metrics.steps.size(); ++i) {
        const std::size_t block = i / steps_a_block;
        series.y[block] += metrics.steps[i].seconds.*stage.seconds / static_cast<double>(workers.size());
        if (i % steps_a_block == 0) series.sources[block] = {metrics.file, metrics.steps[i].line};
      }
    }
    figure.series.push_back(std::move(series));
  }
  return figure;
}

Figure exchange_figure(const std::vector<Cell>& all) {
  const auto exchanges = [](const Cell& cell) {
    return mean_of(cell, [](const Run& run) { return a_step(run, &StageSeconds::exchange) + a_step(run, &StageSeconds::exchange_hidden); }) > 0;
  };
  const auto cells = those(all, exchanges);
  Figure figure{"exchange", "Exchange, hidden and exposed",
                "Exposed: compute waited for it. Hidden: it went on beside other stages, where buckets may go side by side and are counted each.",
                Form::stacked_bars, {"cell"}, "ms a step", cell_names(cells), {}};
  if (cells.empty()) return figure;
  figure.series.push_back(bar("exposed", cells, [](const Run& run) { return a_step(run, &StageSeconds::exchange); }));
  figure.series.push_back(bar("hidden", cells, [](const Run& run) { return a_step(run, &StageSeconds::exchange_hidden); }));
  return figure;
}

Figure cpu_figure(const Run& run) {
  return {"cpu", "CPU over time: " + run.summary.name, "Of each rank's process, user and system together; 100 % is one core.", Form::lines,
          {"seconds"}, "% of a core", {},
          over_time(run, [](const SampleLine& s) { return 100 * (s.cpu_user + s.cpu_system) / s.seconds; })};
}

Figure network_figure(const Run& run) {
  const bool network = is_on_network(run);
  return {"network", "Network over time: " + run.summary.name,
          network ? "What the interfaces of each rank's network namespace sent and received, the loopback apart, headers included."
                  : "What the machine's loopback carried, as each rank saw it: ranks of one host see the same. Shared memory does not count.",
          Form::lines, {"seconds"}, "MB a second", {},
          over_time(run, [network](const SampleLine& s) { return 1e-6 * (network ? s.bytes_sent + s.bytes_received : s.loopback_bytes) / s.seconds; })};
}

Figure cpu_means_figure(const std::vector<Cell>& all) {
  const auto cells = those(all, have_samples);
  Figure figure{"cpu-means", "CPU, means", "Of a rank's process over its whole training, mean over ranks and seeds; 100 % is one core.", Form::stacked_bars,
                {"cell"}, "% of a core", cell_names(cells), {}};
  if (cells.empty()) return figure;
  const auto share = [](double SampleLine::*seconds) {
    return [seconds](const Run& run) { return 100 * a_second(run, [seconds](const SampleLine& s) { return s.*seconds; }); };
  };
  figure.series.push_back(bar("user", cells, share(&SampleLine::cpu_user)));
  figure.series.push_back(bar("system", cells, share(&SampleLine::cpu_system)));
  return figure;
}

Figure network_means_figure(const std::vector<Cell>& all) {
  const auto cells = those(all, have_samples);
  Figure figure{"network-means", "Network, means", "Mean over a run, its ranks and seeds: what went over the network, or over the loopback where all ranks are on one host.",
                Form::bars, {"cell"}, "MB a second and rank", cell_names(cells), {}};
  if (cells.empty()) return figure;
  figure.series.push_back(bar("sent", cells, [](const Run& run) {
    const bool network = is_on_network(run);
    return 1e-6 * a_second(run, [network](const SampleLine& s) { return network ? s.bytes_sent : s.loopback_bytes; });
  }));
  return figure;
}

}  // namespace ripieno
