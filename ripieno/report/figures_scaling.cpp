// How training scales with workers.
#include <algorithm>
#include <array>
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "ripieno/core/error.h"
#include "ripieno/report/figures.h"
#include "ripieno/report/setting.h"
#include "ripieno/report/statistics.h"
#include "ripieno/report/ways.h"

namespace ripieno::report {
namespace {

constexpr const char* strong_and_weak = "Strong: the batch of all workers together stays; weak: that of each does.";

struct ScaledPoint {
  std::size_t workers = 0;
  double images_a_second = 0;
  std::vector<double> seeds;  ///< of images_a_second
  Source source;
  Look look;
  const Run* run = nullptr;  ///< its cell's first
};

/// What a line's name says: how workers agree and where they run, the model, the kind of run, the batch, how slow they
/// compute and with how many cores, their links, and the settings in which it differs from lines that are alike in all
/// these.
using Parts = std::array<std::string, 8>;
constexpr std::size_t settings_part = 7;

/// How a figure words these where they are empty and some line's are not.
const Parts in_place_of_nothing{
    "", "", "", "", "compute at its own speed", "one thread a worker", "links without limits", ""};

/// The key of a line: its parts, and all settings that stay the same along it: those of training, and those of the
/// workers' agreement and place, which a lone worker does not have.
struct Key {
  Parts parts;
  std::string training, agreement;
  auto operator<=>(const Key&) const = default;
};
using Lines = std::map<Key, std::vector<ScaledPoint>>;

/// Names the settings in which lines differ whose other parts are the same.
std::vector<std::pair<Parts, std::vector<ScaledPoint>>> named(const Lines& lines) {
  std::vector<std::pair<Parts, std::vector<ScaledPoint>>> all;
  for (const auto& [key, points] : lines) {
    std::vector<const Run*> alike;
    for (const auto& [other, others] : lines) {
      if (other.parts == key.parts) alike.push_back(others.back().run);
    }
    Parts parts = key.parts;
    for (const std::string& one : different_keys(alike)) {
      const Concern concern = concern_of(one);
      if (concern == Concern::workers || concern == Concern::rate) continue;
      parts[settings_part] += (parts[settings_part].empty() ? "" : ", ") + setting_value(*points.back().run, one);
    }
    all.emplace_back(std::move(parts), points);
  }
  return all;
}

/// Cells that differ only in their workers and learning rate; each line has at least two numbers of workers.
std::vector<std::pair<Parts, std::vector<ScaledPoint>>> scalings(const std::vector<Cell>& cells) {
  Lines strong, weak, kept;
  for (const Cell& cell : cells) {
    const Run& run = cell.first();
    const Summary& one = run.summary;
    ScaledPoint point;
    point.workers = run.workers().size();
    point.source = run.source({"images_per_second"});
    point.look = cell.look;
    point.run = &run;
    const Estimate rate = images_a_second(cell);
    point.seeds = numbers_of(rate.by_seed);
    point.images_a_second = rate.middle;
    if (point.workers == 0 || point.images_a_second <= 0) continue;
    // A single rank begins every line, whatever its strategy's name.
    const std::size_t nodes = run.nodes().size();
    const std::string codec = one.codec == "fp32" || one.codec == "auto" ? "" : " " + one.codec;
    const std::string place = nodes == 1 ? "" : nodes >= point.workers ? ", a node each" : text(", ", nodes, " nodes");
    const std::string strategy = one.world_size == 1 ? "" : one.strategy + codec + place;
    const std::string links = one.world_size == 1 ? "" : link_limits_of(run), slow = slowness_of(run),
                      cores = cores_of(run);
    const std::string training = settings_of(run, {Concern::training}),
                      agreement = one.world_size == 1 ? "" : settings_of(run, {Concern::agreement, Concern::place});
    const auto add = [&](Lines& lines, std::size_t batch, const char* of) {
      const Parts parts{strategy, one.model, one.kind, text("batch ", batch, of), slow, cores, links, ""};
      lines[{parts, training, agreement}].push_back(point);
    };
    add(strong, run.batch(), " (strong)");
    add(weak, run.batch() / point.workers, " a worker (weak)");
  }
  for (auto* lines : {&strong, &weak}) {
    for (auto& [line, points] : *lines) {
      const Parts& parts = line.parts;
      if (parts[0].empty()) continue;
      const auto lone =
          lines->find({{"", parts[1], parts[2], parts[3], parts[4], parts[5], "", ""}, line.training, ""});
      if (lone != lines->end()) points.insert(points.end(), lone->second.begin(), lone->second.end());
      std::stable_sort(points.begin(), points.end(),
                       [](const ScaledPoint& a, const ScaledPoint& b) { return a.workers < b.workers; });
      points.erase(std::unique(points.begin(), points.end(),
                               [](const ScaledPoint& a, const ScaledPoint& b) { return a.workers == b.workers; }),
                   points.end());
      if (points.size() > 1) kept[line] = points;
    }
  }
  return named(kept);
}

/// A line for each scaling; y is images per second times `factor` of the workers and of the rate per worker at the
/// fewest workers.
Figure scaling(const std::vector<Cell>& cells, Figure figure,
               const std::function<double(double workers, double unit)>& factor_of) {
  const auto lines = scalings(cells);
  std::array<bool, std::tuple_size_v<Parts>> alike{};
  for (std::size_t i = 0; i < alike.size(); ++i) {
    alike[i] = std::all_of(lines.begin(), lines.end(),
                           [&](const auto& line) { return line.first[i] == lines.front().first[i]; });
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
    if (const std::string common = name_of(lines.front().first, true); !common.empty())
      figure.caption += text(" All: ", common, ".");
  }
  for (const auto& [line, points] : lines) {
    Series series{name_of(line, false), {{}}, {}, {}, {}, {}, points.back().look};
    while (std::any_of(figure.series.begin(), figure.series.end(),
                       [&](const Series& one) { return one.look == series.look; }))
      ++series.look.dash;
    const double unit = points[0].images_a_second / static_cast<double>(points[0].workers);
    for (const ScaledPoint& point : points) {
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
