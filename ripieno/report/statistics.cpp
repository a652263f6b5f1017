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

std::vector<SeedNumber> by_seed(const std::vector<SeedNumber>& runs) {
  std::vector<SeedNumber> means;
  for (const auto& [seed, first] : runs) {
    const auto is_of_it = [seed = seed](const SeedNumber& one) { return one.first == seed; };
    if (std::any_of(means.begin(), means.end(), is_of_it)) continue;
    std::vector<double> repeats;
    for (const auto& [other, value] : runs) {
      if (other == seed) repeats.push_back(value);
    }
    // Bit-identical repeats stay the same number, which rounding in a mean could change.
    const bool alike = std::all_of(repeats.begin(), repeats.end(), [&](double x) { return x == repeats.front(); });
    means.emplace_back(seed, alike ? repeats.front() : mean(repeats));
  }
  return means;
}

std::vector<double> numbers_of(const std::vector<SeedNumber>& seeds) {
  std::vector<double> numbers;
  for (const auto& [seed, number] : seeds) numbers.push_back(number);
  return numbers;
}

double student_t95(std::size_t degrees_of_freedom) {
  require(degrees_of_freedom > 0, "Student's t with 0 degrees of freedom");
  return boost::math::quantile(boost::math::students_t(static_cast<double>(degrees_of_freedom)), 0.975);
}

double paired_t_test(const std::vector<double>& differences) {
  require(differences.size() > 1, "a t-test of ", differences.size(), " differences");
  const double middle = mean(differences), deviation = standard_deviation(differences);
  if (middle == 0) return 1;
  if (deviation == 0) return 0;
  const double t = std::abs(middle) * std::sqrt(static_cast<double>(differences.size())) / deviation;
  if (!std::isfinite(t)) return std::isnan(t) ? 1 : 0;
  const boost::math::students_t distribution(static_cast<double>(differences.size() - 1));
  return 2 * boost::math::cdf(boost::math::complement(distribution, t));
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double most = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    most = std::max(most, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
    corrected[order[i]] = most;
  }
  return corrected;
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
