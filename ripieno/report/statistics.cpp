#include "ripieno/report/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "ripieno/core/error.h"

namespace ripieno {

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
    // The repeats of a run that is computed alike bit by bit are one number, not one that rounding has changed.
    const bool alike = std::all_of(repeats.begin(), repeats.end(), [&](double x) { return x == repeats.front(); });
    means.push_back(alike ? repeats.front() : mean(repeats));
  }
  return means;
}

double student_t95(std::size_t degrees_of_freedom) {
  require(degrees_of_freedom > 0, "Student's t with 0 degrees of freedom");
  constexpr std::array table{12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004,
                             2.262157,  2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905,
                             2.109816,  2.100922, 2.093024, 2.085963, 2.079614, 2.073873, 2.068658, 2.063899,
                             2.059539,  2.055529, 2.051831, 2.048407, 2.045230, 2.042272};
  if (degrees_of_freedom <= table.size()) return table[degrees_of_freedom - 1];
  constexpr double z = 1.959963984540054;  // the normal distribution's
  constexpr double z2 = z * z;
  const double v = static_cast<double>(degrees_of_freedom);
  return z * (1 + (z2 + 1) / (4 * v) + ((5 * z2 + 16) * z2 + 3) / (96 * v * v) +
              (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v * v * v));
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

}  // namespace ripieno
