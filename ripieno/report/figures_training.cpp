// Results of training: accuracy, loss, bytes, staleness.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "ripieno/core/error.h"
#include "ripieno/report/figures.h"
#include "ripieno/report/statistics.h"
#include "ripieno/report/ways.h"

namespace ripieno::report {
namespace {

const std::vector<std::string> over{"epochs", "seconds of training", "MB sent by all ranks together"};

/// One seed's y at the ends of its epochs; seconds are training time, without evaluation.
struct Curve {
  std::vector<double> epochs, seconds, megabytes, y;
  std::vector<Source> sources;
};

using OfEpoch = std::function<std::optional<double>(const Run&, std::size_t epoch)>;

double payload_sent(const std::optional<ByteCounts>& bytes) {
  return bytes ? static_cast<double>(bytes->payload_sent) : std::numeric_limits<double>::quiet_NaN();
}

/// The epochs that have a value, in rank 0's order. Bytes are the exchange's, of all ranks up to the end of the epoch;
/// NaN, which figures leave out, where they are not known.
Curve curve(const Run& run, const OfEpoch& value) {
  Curve found;
  std::vector<std::size_t> at(run.ranks.size(), 0);
  double bytes = 0;
  const auto seconds = training_seconds(run);
  const auto& epochs = run.ranks.at(0).epochs;
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    for (const Metrics& rank : run.ranks) {
      const std::uint64_t until = i < rank.epochs.size() ? rank.epochs[i].line : 0,
                          from = i > 0 && i - 1 < rank.epochs.size() ? rank.epochs[i - 1].line : 0;
      std::size_t& step = at[static_cast<std::size_t>(&rank - run.ranks.data())];
      for (; step < rank.steps.size() && rank.steps[step].line < until; ++step)
        bytes += payload_sent(rank.steps[step].bytes);
      if (until > from) bytes += payload_sent(rank.epochs[i].bytes);
    }
    const auto y = value(run, i);
    if (!y || !std::isfinite(*y)) continue;
    found.epochs.push_back(epochs[i].epoch + 1.0);
    found.seconds.push_back(seconds[i]);
    found.megabytes.push_back(bytes * 1e-6);
    found.y.push_back(*y);
    found.sources.push_back({run.ranks[0].file, epochs[i].line});
  }
  return found;
}

/// The mean over seeds, point by point, as far as all seeds go.
Series mean_curve(const Cell& cell, const OfEpoch& value) {
  std::vector<Curve> seeds;
  std::size_t points = SIZE_MAX;
  for (const Run* run : cell.runs) {
    seeds.push_back(curve(*run, value));
    points = std::min(points, seeds.back().y.size());
  }
  Series series{cell.name, std::vector<std::vector<double>>(over.size()), {}, {}, {}, {}, cell.look};
  for (std::size_t i = 0; i < points; ++i) {
    const auto all = [&](std::vector<double> Curve::*part) {
      std::vector<SeedNumber> values;
      for (std::size_t run = 0; run < seeds.size(); ++run)
        values.emplace_back(cell.runs[run]->summary.seed, (seeds[run].*part)[i]);
      return numbers_of(by_seed(values));
    };
    series.x[0].push_back(mean(all(&Curve::epochs)));
    series.x[1].push_back(mean(all(&Curve::seconds)));
    series.x[2].push_back(mean(all(&Curve::megabytes)));
    series.y.push_back(mean(all(&Curve::y)));
    if (const auto y = all(&Curve::y); y.size() > 1) series.spread.push_back(interval95(y));
    series.sources.push_back(seeds[0].sources[i]);
  }
  return series;
}

/// " ring, seed 1: not a finite number from epoch 3 on, and not drawn."; "" where all are.
std::string not_finite_from(const Run& run, const OfEpoch& value) {
  for (std::size_t epoch = 0; epoch < run.ranks.at(0).epochs.size(); ++epoch) {
    const auto y = value(run, epoch);
    if (!y || std::isfinite(*y)) continue;
    return text(" ", run.summary.name, ", seed ", run.summary.seed, ": not a finite number from epoch ",
                run.ranks[0].epochs[epoch].epoch + 1, " on, and not drawn.");
  }
  return "";
}

std::vector<Series> mean_curves(const std::vector<Cell>& cells, const OfEpoch& value) {
  std::vector<Series> found;
  for (const Cell& cell : cells) {
    Series series = mean_curve(cell, value);
    if (!series.y.empty()) found.push_back(std::move(series));
  }
  return found;
}

}  // namespace

Figure accuracy_figure(const std::vector<Cell>& cells) {
  const OfEpoch value = [](const Run& run, std::size_t epoch) -> std::optional<double> {
    const auto& test = run.ranks[0].epochs[epoch].test;
    if (!test) return std::nullopt;
    return 100 * test->accuracy;
  };
  const bool hands_over =
      std::any_of(cells.begin(), cells.end(), [](const Cell& cell) { return cell.runs[0]->summary.hands_over(); });
  return {"accuracy",
          "Accuracy",
          text("Of the model that the workers agree on, at the end of each epoch; whiskers: 95 % interval over seeds. "
               "Seconds and bytes are those of training, without evaluation",
               hands_over ? "; along the route native, bytes are those that MPI was handed." : "."),
          Form::lines,
          over,
          "% of the test set",
          {},
          mean_curves(cells, value)};
}

Figure loss_figure(const std::vector<Cell>& cells) {
  const OfEpoch value = [](const Run& run, std::size_t epoch) -> std::optional<double> {
    double sum = 0, samples = 0;
    for (const Metrics& rank : run.ranks) {
      for (const StepLine& step : rank.steps) {
        if (step.epoch != run.ranks[0].epochs[epoch].epoch || step.samples == 0) continue;
        sum += step.loss.value_or(std::numeric_limits<double>::quiet_NaN()) * step.samples;
        samples += step.samples;
      }
    }
    if (samples == 0) return std::nullopt;
    return sum / samples;
  };
  Figure figure{"loss",
                "Training loss",
                "The mean over all samples of an epoch, each as it was in its own step.",
                Form::lines,
                over,
                "cross-entropy",
                {},
                mean_curves(cells, value)};
  for (const Cell& cell : cells) {
    for (const Run* run : cell.runs) figure.caption += not_finite_from(*run, value);
  }
  return figure;
}

Figure bytes_figure(const std::vector<Cell>& cells) {
  Figure figure{"bytes",
                "Accuracy against bytes",
                "A point a way, mean over seeds. On the dotted line are those that no other beats in both, fewer bytes "
                "and higher accuracy (the Pareto front).",
                Form::points,
                {"MB sent in all, whole run"},
                "% of the test set",
                {},
                {}};
  struct Point {
    double megabytes, accuracy;
  };
  std::vector<Point> points;
  for (const Cell& cell : cells) {
    using Value = std::optional<double>;
    const auto of_tested = [&](const std::function<Value(const Summary&)>& number) {
      return seeds_of(cell, [&](const Run& run) { return run.summary.test ? number(run.summary) : Value(); });
    };
    const auto accuracies = of_tested([](const Summary& run) { return Value(100 * run.test->accuracy); });
    const auto megabytes = of_tested([](const Summary& run) { return run.megabytes_sent(run.exchange_payload_sent); });
    if (accuracies.empty() || megabytes.empty()) continue;
    points.push_back({mean(megabytes), mean(accuracies)});
    Series series{cell.name,
                  {{points.back().megabytes}},
                  {points.back().accuracy},
                  {},
                  {cell.name},
                  {cell.first().source({"test", "accuracy"})},
                  cell.look};
    if (accuracies.size() > 1) series.spread = {interval95(accuracies)};
    figure.series.push_back(std::move(series));
  }
  if (points.size() < 2) return figure;
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.megabytes != b.megabytes ? a.megabytes < b.megabytes : a.accuracy > b.accuracy;
  });
  Series front{"Pareto front", {{}}, {}, {}, {}, {}};
  for (const Point& point : points) {
    if (!front.y.empty() && point.accuracy <= front.y.back()) continue;
    front.x[0].push_back(point.megabytes);
    front.y.push_back(point.accuracy);
  }
  figure.series.push_back(std::move(front));
  return figure;
}

Figure staleness_figure(const std::vector<Cell>& cells) {
  Figure figure{"staleness",
                "Staleness",
                "How many updates others made between the moment that a worker took the parameters and its own update.",
                Form::bars,
                {"updates by others"},
                "% of gradients",
                {},
                {}};
  std::int64_t oldest = -1;
  std::vector<std::map<std::int64_t, double>> counts(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    for (const Run* run : cells[i].runs) {
      for (const RankSummary& rank : run->summary.ranks) {
        for (const auto& [age, count] : rank.staleness.value_or(std::map<std::int64_t, std::uint64_t>{})) {
          counts[i][age] += static_cast<double>(count);
          oldest = std::max(oldest, age);
        }
      }
    }
  }
  for (std::int64_t age = 0; age <= oldest; ++age) figure.categories.push_back(std::to_string(age));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    double all = 0;
    for (const auto& [age, count] : counts[i]) all += count;
    if (all == 0) continue;
    Series series{cells[i].name, {}, {}, {}, {}, {}, cells[i].look};
    for (std::int64_t age = 0; age <= oldest; ++age) series.y.push_back(100 * counts[i][age] / all);
    figure.series.push_back(std::move(series));
  }
  return figure;
}

}  // namespace ripieno::report
