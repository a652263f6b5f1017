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

/// A run's seed, and its number.
using SeedNumber = std::pair<std::int64_t, double>;
/// One number per seed, in the order of first appearance: the mean of a seed's repeats, since repeats say nothing about
/// other seeds.
std::vector<SeedNumber> by_seed(const std::vector<SeedNumber>& runs);
std::vector<double> numbers_of(const std::vector<SeedNumber>& seeds);

/// The 97.5 % point of Student's t distribution, for 1 or more degrees of freedom.
double student_t95(std::size_t degrees_of_freedom);

/// The two-sided p value of the paired t-test: how probable a mean as far from 0 is, if the differences' true mean is
/// 0. 1 if all are 0, 0 if all are the same other number. Of two differences or more, else Error(internal).
double paired_t_test(const std::vector<double>& differences);

/// Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979) of the p values of several tests: of those
/// that then lie below a, a wrong one is among them with probability a at most. In the order given.
std::vector<double> holm(const std::vector<double>& p);

double median(std::vector<double> values);

/// The quantile `q` in [0, 1], linearly interpolated (R's type 7, NumPy's default).
double quantile(std::vector<double> values, double q);

}  // namespace ripieno::report
