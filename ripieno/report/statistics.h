// What a handful of numbers says: mean, spread, and how far the mean can be trusted. An empty list is an
// Error(internal).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ripieno::report {

double mean(const std::vector<double>& values);

/// Of a sample (divided by n - 1); 0 for one value.
double standard_deviation(const std::vector<double>& values);

/// Half the width of the 95 % interval of the mean, by Student's t: t(n-1) * deviation / sqrt(n); 0 for one value, of
/// which it says nothing.
double interval95(const std::vector<double>& values);

/// What runs with these seeds came to, a number a seed in the order in which they first appear: repeats of one seed are
/// its mean, for they say nothing of other seeds.
std::vector<double> by_seed(const std::vector<std::pair<std::int64_t, double>>& runs);

/// The 97.5 % point of Student's t distribution, for 1 and more degrees of freedom: a table to 30, and beyond it the
/// expansion of Cornish and Fisher about the normal distribution (Abramowitz and Stegun, 26.7.5), right to 6 digits.
double student_t95(std::size_t degrees_of_freedom);

double median(std::vector<double> values);

/// The value below which a fraction `q` in [0, 1] lies, on the straight line between neighbours (R's type 7, NumPy's
/// default).
double quantile(std::vector<double> values, double q);

}  // namespace ripieno::report
