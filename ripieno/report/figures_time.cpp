// Where the time went: stages, exchange, CPU and network.
#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "ripieno/core/error.h"
#include "ripieno/report/figures.h"
#include "ripieno/report/measures.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

/// The stages of a step in stacking order: waiting comes last, in colour.
std::vector<observe::StageInfo> stacked_stages() {
  std::vector<observe::StageInfo> found;
  std::copy_if(observe::stages.begin(), observe::stages.end(), std::back_inserter(found),
               [](const observe::StageInfo& one) {
                 return one.kind == observe::StageKind::in_step && one.stage != observe::Stage::exchange;
               });
  found.push_back(observe::info(observe::Stage::exchange));
  return found;
}

/// Milliseconds a step.
double a_step(const Run& run, observe::Stage stage) { return 1e3 * mean_step(run, stage).value_or(0); }

double mean_of(const Cell& cell, const std::function<double(const Run&)>& value) {
  return mean(seeds_of(cell, [&](const Run& run) { return std::optional(value(run)); }));
}

bool has_steps(const Cell& cell) {
  return std::any_of(cell.runs.begin(), cell.runs.end(), [](const Run* run) { return !run->workers().empty(); });
}

/// Keeps the cells for which `has` is true.
std::vector<Cell> those(const std::vector<Cell>& cells, const std::function<bool(const Cell&)>& has) {
  std::vector<Cell> kept;
  std::copy_if(cells.begin(), cells.end(), std::back_inserter(kept), has);
  return kept;
}

bool has_samples(const Run& run) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), [](const Metrics& rank) { return !rank.samples.empty(); });
}

bool have_samples(const Cell& cell) {
  return std::any_of(cell.runs.begin(), cell.runs.end(), [](const Run* run) { return has_samples(*run); });
}

Series over_time(const std::string& name, const Metrics& rank, const std::function<double(const SampleLine&)>& value) {
  Series series{name, {{}}, {}, {}, {}, {}};
  for (const SampleLine& sample : rank.samples) {
    if (sample.seconds <= 0) continue;
    series.x[0].push_back(sample.time);
    series.y.push_back(value(sample));
    series.sources.push_back({rank.file, sample.line});
  }
  return series;
}

/// One line per rank; a rank that does not train is a server.
std::vector<Series> by_rank(const Run& run, const std::function<double(const SampleLine&)>& value) {
  std::vector<Series> found;
  const auto workers = run.workers();
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const bool trains = std::find(workers.begin(), workers.end(), static_cast<int>(rank)) != workers.end();
    Series series = over_time(text("rank ", rank, trains ? "" : ", server"), run.ranks[rank], value);
    if (!series.y.empty()) found.push_back(std::move(series));
  }
  return found;
}

/// One line per host, from its first rank's samples.
std::vector<Series> by_host(const Run& run, const std::function<double(const SampleLine&)>& value) {
  std::vector<Series> found;
  std::set<std::string> seen;
  for (const Metrics& rank : run.ranks) {
    if (!rank.start || !seen.insert(rank.start->host).second) continue;
    Series series = over_time(text("all of ", rank.start->host), rank, value);
    if (!series.y.empty()) found.push_back(std::move(series));
  }
  return found;
}

/// A figure with bars for each of these cells.
Figure over_cells(Figure figure, const std::vector<Cell>& cells) {
  figure.x_titles = {"way"};
  figure.categories = names_of(cells);
  for (const Cell& cell : cells) figure.category_looks.push_back(cell.look);
  return figure;
}

Series in_their_colours(Series series) {
  series.by_category = true;
  return series;
}

Series bar(const std::string& name, const std::vector<Cell>& cells, const std::function<double(const Run&)>& value) {
  Series series{name, {}, {}, {}, {}, {}};
  for (const Cell& cell : cells) {
    series.y.push_back(mean_of(cell, value));
    series.sources.push_back(cell.first().source({"seconds", "stages"}));
  }
  return series;
}

}  // namespace

Figure measure_figure(const std::vector<Cell>& all, const std::string& name, const std::string& title) {
  const Measure& measure = find_measure(name);
  const auto has = [&](const Cell& cell) {
    return std::any_of(cell.runs.begin(), cell.runs.end(),
                       [&](const Run* run) { return measure.of(*run).has_value(); });
  };
  const auto cells = those(all, has);
  Figure figure = over_cells({"cells-" + std::string(measure.name),
                              title,
                              "Mean over seeds; whiskers: its 95 % interval.",
                              Form::bars,
                              {},
                              measure.title,
                              {},
                              {}},
                             cells);
  if (cells.empty()) return figure;
  Series series = in_their_colours({measure.title, {}, {}, {}, {}, {}});
  bool several = false;
  for (const Cell& cell : cells) {
    const std::vector<double> seeds = seeds_of(cell, measure.of);
    several |= seeds.size() > 1;
    series.y.push_back(mean(seeds));
    series.spread.push_back(interval95(seeds));
    series.sources.push_back(cell.first().source(measure.field));
  }
  if (!several) series.spread.clear();
  figure.series.push_back(std::move(series));
  return figure;
}

Figure stages_figure(const std::vector<Cell>& all) {
  const auto cells = those(all, has_steps);
  Figure figure =
      over_cells({"stages",
                  "Where a step's time goes",
                  text("Mean over steps, workers and seeds. In colour: what a worker waits for; an exchange "
                       "that goes on while it computes is not in it. ",
                       counted_steps(cells)),
                  Form::stacked_bars,
                  {},
                  "ms a step",
                  {},
                  {}},
                 cells);
  if (cells.empty()) return figure;
  for (const observe::StageInfo& one : stacked_stages()) {
    Series series = bar(one.label, cells, [&](const Run& run) { return a_step(run, one.stage); });
    if (observe::is_shown(one, *std::max_element(series.y.begin(), series.y.end())))
      figure.series.push_back(std::move(series));
  }
  figure.series.back().by_category = true;
  return figure;
}

Figure blocks_figure(const Run& run, std::size_t steps_a_block) {
  Figure figure{"blocks",
                "Where its steps' time goes, over time",
                text("A bar for each ", steps_a_block,
                     " steps, the last for as many as are left: mean over its steps and workers."),
                Form::stacked_bars,
                {"steps"},
                "ms a step",
                {},
                {}};
  const auto workers = run.workers();
  if (workers.empty()) return figure;
  std::size_t steps = 0;
  for (const int rank : workers) steps = std::max(steps, run.ranks[static_cast<std::size_t>(rank)].steps.size());
  const std::size_t blocks = (steps + steps_a_block - 1) / steps_a_block;
  for (std::size_t block = 0; block < blocks; ++block) {
    figure.categories.push_back(text(block * steps_a_block, " – ", std::min(steps, (block + 1) * steps_a_block) - 1));
  }
  for (const observe::StageInfo& one : stacked_stages()) {
    Series series{one.label, {}, std::vector<double>(blocks), {}, {}, std::vector<Source>(blocks)};
    std::vector<double> counted(blocks);
    for (const int rank : workers) {
      const Metrics& metrics = run.ranks[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < metrics.steps.size(); ++i) {
        const std::size_t block = i / steps_a_block;
        series.y[block] += 1e3 * metrics.steps[i].seconds[one.stage];
        ++counted[block];
        if (i % steps_a_block == 0) series.sources[block] = {metrics.file, metrics.steps[i].line};
      }
    }
    for (std::size_t block = 0; block < blocks; ++block) series.y[block] /= counted[block];
    if (observe::is_shown(one, *std::max_element(series.y.begin(), series.y.end())))
      figure.series.push_back(std::move(series));
  }
  return figure;
}

Figure exchange_figure(const std::vector<Cell>& all) {
  const auto exchanges = [](const Cell& cell) {
    return mean_of(cell, [](const Run& run) {
             return a_step(run, observe::Stage::exchange) + a_step(run, observe::Stage::hidden);
           }) > 0;
  };
  const auto cells = those(all, exchanges);
  Figure figure = over_cells({"exchange",
                              "The exchange: waited for, and hidden",
                              text("Hidden: it went on while the worker computed. Parts of a model that are exchanged "
                                   "side by side are counted each. ",
                                   counted_steps(cells)),
                              Form::stacked_bars,
                              {},
                              "ms a step",
                              {},
                              {}},
                             cells);
  if (cells.empty()) return figure;
  figure.series.push_back(
      in_their_colours(bar("waited for", cells, [](const Run& run) { return a_step(run, observe::Stage::exchange); })));
  figure.series.push_back(bar("hidden", cells, [](const Run& run) { return a_step(run, observe::Stage::hidden); }));
  return figure;
}

Figure cpu_figure(const Run& run) {
  Figure figure{"cpu",
                "CPU over time",
                "Of each rank's process, and of all that ran on each host; 100 % is one core.",
                Form::lines,
                {"seconds"},
                "% of a core",
                {},
                by_rank(run, [](const SampleLine& s) { return 100 * (s.cpu_user + s.cpu_system) / s.seconds; })};
  for (Series& host :
       by_host(run, [](const SampleLine& s) { return 100 * (s.machine_user + s.machine_system) / s.seconds; }))
    figure.series.push_back(std::move(host));
  return figure;
}

Figure network_figure(const Run& run, Direction direction) {
  const bool network = run.is_on_network(), sent = direction == Direction::sent;
  const std::string done = sent ? "sent" : "received";
  Figure figure{sent ? "network" : "network-received",
                "Network over time: " + done,
                network
                    ? text("What each rank's network interfaces ", done, ", headers included, without the loopback.")
                    : "What the machine's loopback sent, as each rank saw it: ranks of one host see the same. What "
                      "goes through shared memory is not in it.",
                Form::lines,
                {"seconds"},
                text("MB ", done, " a second"),
                {},
                {}};
  if (!network && !sent) return figure;
  figure.series = by_rank(run, [network, sent](const SampleLine& s) {
    return 1e-6 * (!network ? s.loopback_bytes : sent ? s.bytes_sent : s.bytes_received) / s.seconds;
  });
  return figure;
}

Figure packets_figure(const Run& run, Direction direction) {
  const bool sent = direction == Direction::sent;
  const std::string done = sent ? "sent" : "received";
  Figure figure{sent ? "packets" : "packets-received",
                "Packets over time: " + done,
                text("What each rank's network interfaces ", done, ", without the loopback."),
                Form::lines,
                {"seconds"},
                text("packets ", done, " a second"),
                {},
                {}};
  if (!run.is_on_network()) return figure;
  figure.series =
      by_rank(run, [sent](const SampleLine& s) { return (sent ? s.packets_sent : s.packets_received) / s.seconds; });
  return figure;
}

Figure network_timeline_figure(const std::vector<Cell>& all) {
  Figure figure{"network-timeline",
                "Network, sent: each way's first run, one after the other",
                "What all ranks of the run sent together, over the network or the loopback.",
                Form::lines,
                {"seconds"},
                "MB sent a second",
                {},
                {}};
  const auto cells = those(all, have_samples);
  double begin = 0;
  for (std::size_t i = 0; i < cells.size() && cells.size() > 1; ++i) {
    const Run& run = cells[i].first();
    const bool network = run.is_on_network();
    std::vector<double> sent;  // in each second
    for (const Metrics* node : run.nodes()) {
      for (const SampleLine& sample : node->samples) {
        const double megabytes = 1e-6 * (network ? sample.bytes_sent : sample.loopback_bytes),
                     first = std::max(0.0, sample.time - sample.seconds);
        if (sent.size() <= static_cast<std::size_t>(sample.time))
          sent.resize(static_cast<std::size_t>(sample.time) + 1);
        for (auto second = static_cast<std::size_t>(first); second < sent.size() && sample.time > first; ++second) {
          const auto begin = static_cast<double>(second);
          const double within = std::min(sample.time, begin + 1) - std::max(first, begin);
          sent[second] += megabytes * std::max(0.0, within) / (sample.time - first);
        }
      }
    }
    Series series{cells[i].name, {{}}, sent, {}, {}, {}, cells[i].look};
    for (std::size_t slot = 0; slot < sent.size(); ++slot) series.x[0].push_back(begin + static_cast<double>(slot));
    begin += static_cast<double>(sent.size());
    figure.series.push_back(std::move(series));
  }
  return figure;
}

Figure cpu_means_figure(const std::vector<Cell>& all) {
  const auto cells = those(all, have_samples);
  Figure figure = over_cells({"cpu-means",
                              "CPU",
                              text("Of a rank's process: mean over its training, over ranks and seeds; 100 % is one "
                                   "core. ",
                                   counted_steps(cells)),
                              Form::stacked_bars,
                              {},
                              "% of a core",
                              {},
                              {}},
                             cells);
  if (cells.empty()) return figure;
  const auto share = [](double SampleLine::*seconds) {
    return [seconds](const Run& run) { return 100 * mean_second(run, run.all_ranks(), seconds).value_or(0); };
  };
  figure.series.push_back(in_their_colours(bar("user", cells, share(&SampleLine::cpu_user))));
  figure.series.push_back(bar("system", cells, share(&SampleLine::cpu_system)));
  return figure;
}

Figure network_means_figure(const std::vector<Cell>& all) {
  const auto cells = those(all, have_samples);
  Figure figure = over_cells({"network-means",
                              "Network: sent",
                              text("Mean over a run, its machines and seeds: over the network, or over the loopback "
                                   "where all ranks are on one machine. ",
                                   counted_steps(cells)),
                              Form::bars,
                              {},
                              "MB sent a second by each machine",
                              {},
                              {}},
                             cells);
  if (cells.empty()) return figure;
  figure.series.push_back(in_their_colours(bar("sent", cells, [](const Run& run) {
    const bool network = run.is_on_network();
    return 1e-6 *
           mean_second(run, run.nodes(), network ? &SampleLine::bytes_sent : &SampleLine::loopback_bytes).value_or(0);
  })));
  return figure;
}

}  // namespace ripieno::report
