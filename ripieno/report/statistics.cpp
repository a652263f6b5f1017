#include "ripieno/report/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>
#include <utility>

#include "ripieno/core/error.h"

namespace ripieno::report {

double mean(const std::vector<double>& values) {
  require(!values.empty(), "the mean of no values");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(const std::vector<double>& values) {
  const double middle = mean(values);
  if (values.size() < 2) return 0;
  double sum = 0;
  for (const double x : values) sum += (x - middle) * (x - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double interval95(const std::vector<double>& values) {
  const double deviation = standard_deviation(values);
  if (values.size() < 2) return 0;
  return student_t95(values.size() - 1) * deviation / std::sqrt(static_cast<double>(values.size()));
}

std::vector<double> by_seed(const std::vector<std::pair<std::int64_t, double>>& runs) {
  std::vector<std::int64_t> seeds;
  std::vector<std::vector<double>> values;
  for (const auto& [seed, value] : runs) {
    const auto place = static_cast<std::size_t>(std::find(seeds.begin(), seeds.end(), seed) - seeds.begin());
    if (place == seeds.size()) {
      seeds.push_back(seed);
      values.emplace_back();
    }
    values[place].push_back(value);
  }
  std::vector<double> means;
  for (const auto& repeats : values) {
    // Bit-identical repeats stay the same number, which rounding in a mean could change.
    const bool alike = std::all_of(repeats.begin(), repeats.end(), [&](double x) { return x == repeats.front(); });
    means.push_back(alike ? repeats.front() : mean(repeats));
  }
  return means;
}

double student_t95(std::size_t degrees_of_freedom) {
  require(degrees_of_freedom > 0, "Student's t with 0 degrees of freedom");
  return boost::math::quantile(boost::math::students_t(static_cast<double>(degrees_of_freedom)), 0.975);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double quantile(std::vector<double> values, double q) {
  require(!values.empty(), "a quantile of no values");
  require(q >= 0 && q <= 1, "quantile ", q, " is not a fraction from 0 to 1");
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 == values.size()) return values.back();
  return values[below] + (at - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

}  // namespace ripieno::report
