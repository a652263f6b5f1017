// How training scales with workers.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "ripieno/core/error.h"
#include "ripieno/report/figures.h"
#include "ripieno/report/setting.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

constexpr const char* strong_and_weak = "Strong: the batch of all workers together stays; weak: that of each does.";

struct Point {
  std::size_t workers = 0;
  double images_a_second = 0;
  std::vector<double> seeds;  ///< of images_a_second
  Source source;
  Look look;
};

/// The key of a line: how workers agree and where they run, the model, the kind of run, the batch, how slow they
/// compute and with how many cores, and their links.
using Parts = std::array<std::string, 7>;

/// How a figure words these where they are empty and some line's are not.
const Parts in_place_of_nothing{
    "", "", "", "", "compute at its own speed", "one thread a worker", "links without limits"};

/// Cells that differ only in their workers; each line has at least two numbers of workers.
std::map<Parts, std::vector<Point>> scalings(const std::vector<Cell>& cells) {
  std::map<Parts, std::vector<Point>> strong, weak, kept;
  for (const Cell& cell : cells) {
    const Run& run = cell.first();
    const Summary& one = run.summary;
    Point point;
    point.workers = run.workers().size();
    point.source = run.source({"images_per_second"});
    point.look = cell.look;
    point.seeds = seeds_of(cell, [](const Run& seed) { return std::optional(seed.summary.images_per_second); });
    point.images_a_second = mean(point.seeds);
    if (point.workers == 0 || point.images_a_second <= 0) continue;
    // A single rank begins every line, whatever its strategy's name.
    const std::size_t nodes = run.nodes().size();
    const std::string codec = one.codec == "fp32" || one.codec == "auto" ? "" : " " + one.codec;
    const std::string place = nodes == 1 ? "" : nodes >= point.workers ? ", a node each" : text(", ", nodes, " nodes");
    const std::string strategy = one.world_size == 1 ? "" : one.strategy + codec + place;
    const std::string links = one.world_size == 1 ? "" : link_limits_of(run), slow = slowness_of(run),
                      cores = cores_of(run);
    const auto add = [&](auto& lines, std::size_t batch, const char* of) {
      lines[{strategy, one.model, one.kind, text("batch ", batch, of), slow, cores, links}].push_back(point);
    };
    add(strong, run.batch(), " (strong)");
    add(weak, run.batch() / point.workers, " a worker (weak)");
  }
  for (auto* lines : {&strong, &weak}) {
    for (auto& [line, points] : *lines) {
      if (line[0].empty()) continue;
      const auto lone = lines->find({"", line[1], line[2], line[3], line[4], line[5], ""});
      if (lone != lines->end()) points.insert(points.end(), lone->second.begin(), lone->second.end());
      std::stable_sort(points.begin(), points.end(),
                       [](const Point& a, const Point& b) { return a.workers < b.workers; });
      points.erase(std::unique(points.begin(), points.end(),
                               [](const Point& a, const Point& b) { return a.workers == b.workers; }),
                   points.end());
      if (points.size() > 1) kept[line] = points;
    }
  }
  return kept;
}

/// A line for each scaling; y is images per second times `factor` of the workers and of the rate per worker at the
/// fewest workers.
Figure scaling(const std::vector<Cell>& cells, Figure figure,
               const std::function<double(double workers, double unit)>& factor_of) {
  const auto lines = scalings(cells);
  std::array<bool, std::tuple_size_v<Parts>> alike{};
  for (std::size_t i = 0; i < alike.size(); ++i) {
    alike[i] = std::all_of(lines.begin(), lines.end(),
                           [&](const auto& line) { return line.first[i] == lines.begin()->first[i]; });
  }
  // Properties that all lines share are stated once, below the title; that runs are computed only if some are not.
  const auto name_of = [&](const Parts& line, bool common) {
    std::string name;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string& part = line[i].empty() && !alike[i] ? in_place_of_nothing[i] : line[i];
      if (part.empty() || (alike[i] && part == "computed")) continue;
      if ((alike[i] && lines.size() > 1) == common) name += text(name.empty() ? "" : ", ", part);
    }
    return name;
  };
  if (lines.size() > 1) {
    if (const std::string common = name_of(lines.begin()->first, true); !common.empty())
      figure.caption += text(" All: ", common, ".");
  }
  for (const auto& [line, points] : lines) {
    Series series{name_of(line, false), {{}}, {}, {}, {}, {}, points.back().look};
    while (std::any_of(figure.series.begin(), figure.series.end(),
                       [&](const Series& one) { return one.look == series.look; }))
      ++series.look.dash;
    const double unit = points[0].images_a_second / static_cast<double>(points[0].workers);
    for (const Point& point : points) {
      const auto workers = static_cast<double>(point.workers);
      const double factor = factor_of(workers, unit);
      series.x[0].push_back(workers);
      series.y.push_back(point.images_a_second * factor);
      if (point.seeds.size() > 1) series.spread.push_back(interval95(point.seeds) * factor);
      series.sources.push_back(point.source);
    }
    if (series.spread.size() != series.y.size()) series.spread.clear();
    figure.series.push_back(std::move(series));
  }
  return figure;
}

}  // namespace

Figure throughput_figure(const std::vector<Cell>& cells) {
  return scaling(cells,
                 {"throughput",
                  "Images a second",
                  text("Of all workers together. ", strong_and_weak, " ", counted_steps(cells)),
                  Form::lines,
                  {"workers"},
                  "images/s",
                  {},
                  {}},
                 [](double, double) { return 1.0; });
}

Figure speedup_figure(const std::vector<Cell>& cells) {
  return scaling(cells,
                 {"speedup",
                  "Speed-up",
                  text("Images a second over those of the fewest workers, times how many these are. ", strong_and_weak),
                  Form::lines,
                  {"workers"},
                  "times",
                  {},
                  {}},
                 [](double, double unit) { return 1 / unit; });
}

Figure efficiency_figure(const std::vector<Cell>& cells) {
  return scaling(cells,
                 {"efficiency",
                  "Efficiency",
                  text("Speed-up over workers. ", strong_and_weak),
                  Form::lines,
                  {"workers"},
                  "%",
                  {},
                  {}},
                 [](double workers, double unit) { return 100 / workers / unit; });
}

}  // namespace ripieno::report
