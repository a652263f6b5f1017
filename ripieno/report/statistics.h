// Statistics of small samples: mean, spread, and the confidence interval of the mean. An empty list is an
// Error(internal).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ripieno::report {

double mean(const std::vector<double>& values);

/// The sample's standard deviation (divided by n - 1); 0 for one value.
double standard_deviation(const std::vector<double>& values);

/// Half the width of the 95 % interval of the mean, by Student's t: t(n-1) * deviation / sqrt(n); 0 for one value,
/// where it is unknown.
double interval95(const std::vector<double>& values);

/// One number per seed, in the order of first appearance: the mean of a seed's repeats, since repeats say nothing about
/// other seeds.
std::vector<double> by_seed(const std::vector<std::pair<std::int64_t, double>>& runs);

/// The 97.5 % point of Student's t distribution, for 1 or more degrees of freedom: a table up to 30, beyond that the
/// Cornish-Fisher expansion about the normal distribution (Abramowitz and Stegun, 26.7.5), accurate to 6 digits.
double student_t95(std::size_t degrees_of_freedom);

double median(std::vector<double> values);

/// The quantile `q` in [0, 1], linearly interpolated (R's type 7, NumPy's default).
double quantile(std::vector<double> values, double q);

}  // namespace ripieno::report
