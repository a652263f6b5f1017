#include "ripieno/report/scale.h"

#include <algorithm>
#include <cmath>

#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

constexpr double out_of_scale = 10;  // times the median
constexpr double most_beside = 3;    // times the longest bar in scale: a longer axis would flatten it

double lower_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

/// Lengths of bars; for stacked bars, of the whole stack.
std::vector<double> bar_lengths(const Figure& figure) {
  std::vector<double> found;
  const bool stacked = figure.form == Form::stacked_bars;
  if (stacked) found.assign(figure.categories.size(), 0);
  for (const Series& series : figure.series) {
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      if (stacked)
        found[i] += series.y[i];
      else
        found.push_back(series.y[i]);
    }
  }
  std::erase_if(found, [](double x) { return !std::isfinite(x) || x <= 0; });
  return found;
}

Scale scale_of_bars(const Figure& figure) {
  const auto all = bar_lengths(figure);
  if (all.size() < 3) return {};
  const double most = out_of_scale * lower_median(all);
  double longest = 0;
  for (const double x : all) longest = std::max(longest, x <= most ? x : 0);
  if (*std::max_element(all.begin(), all.end()) <= most_beside * longest) return {};
  return {0, longest * 1.35, false};
}

/// Rising percentages, such as accuracy: lines that end far below are left out.
Scale scale_of_accuracy(const Figure& figure) {
  std::vector<double> ends;
  for (const Series& series : figure.series) {
    if (!series.y.empty()) ends.push_back(series.y.back());
  }
  if (ends.size() < 3) return {};
  const double middle = median(ends), best = *std::max_element(ends.begin(), ends.end());
  const double lowest = middle - std::max(15.0, 5 * (best - middle));
  double low = best, high = best;
  bool cut = false;
  for (const Series& series : figure.series) {
    if (series.y.empty()) continue;
    cut |= series.y.back() < lowest;
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      high = std::max(high, std::min(100.0, series.y[i] + (series.spread.empty() ? 0 : series.spread[i])));
      if (series.y.back() >= lowest) low = std::min(low, series.y[i]);
    }
  }
  const double margin = std::max(1e-9, (high - low) * 0.05);
  if (!cut) return {};
  return {low - margin, high + margin, false};
}

Scale scale_of_rates(const Figure& figure) {
  std::vector<double> highest;
  for (const Series& series : figure.series) {
    if (series.y.empty()) continue;
    const double most = *std::max_element(series.y.begin(), series.y.end());
    if (most > 0) highest.push_back(most);
  }
  if (highest.size() < 2) return {};
  if (*std::max_element(highest.begin(), highest.end()) <= out_of_scale * lower_median(highest)) return {};
  return {0, 0, true};
}

}  // namespace

Scale scale_of(const Figure& figure) {
  if (!figure.categories.empty())
    return figure.x_titles == std::vector<std::string>{"way"} ? scale_of_bars(figure) : Scale{};
  return figure.y_title == "% of the test set" ? scale_of_accuracy(figure) : scale_of_rates(figure);
}

bool is_x_log(const Figure& figure, std::size_t axis) {
  double least = INFINITY, most = 0;
  for (const Series& series : figure.series) {
    if (axis >= series.x.size() || series.x[axis].empty()) continue;
    for (const double x : series.x[axis]) {
      if (!(x > 0)) return false;
    }
    least = std::min(least, series.x[axis].back());
    most = std::max(most, series.x[axis].back());
  }
  return most > out_of_scale * least;
}

}  // namespace ripieno::report
