#include "ripieno/report/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "ripieno/core/error.h"

namespace ripieno::report {
namespace {

/// P(T <= t), by Simpson's rule on the density: another way than the table's.
double student_below(double t, double v) {
  const int n = 20000;
  const double h = t / n;
  double sum = 0;
  for (int i = 0; i <= n; ++i) {
    const double weight = i == 0 || i == n ? 1 : i % 2 ? 4 : 2;
    sum += weight * std::pow(1 + (i * h) * (i * h) / v, -(v + 1) / 2);
  }
  const double scale = std::exp(std::lgamma((v + 1) / 2) - std::lgamma(v / 2)) / std::sqrt(v * std::numbers::pi);
  return 0.5 + scale * sum * h / 3;
}

TEST(Statistics, StudentsTHoldsItsDefinition) {
  for (const std::size_t v : {1, 2, 3, 4, 5, 9, 15, 22, 29, 30, 31, 32, 45, 100, 1000}) {
    EXPECT_NEAR(student_below(student_t95(v), static_cast<double>(v)), 0.975, 2e-7) << v;
  }
  for (std::size_t v = 1; v < 200; ++v) EXPECT_GT(student_t95(v), student_t95(v + 1)) << v;
}

TEST(Statistics, StudentsTAsInTextbooks) {
  EXPECT_NEAR(student_t95(2), 4.303, 5e-4);
  EXPECT_NEAR(student_t95(30), 2.042, 5e-4);
  EXPECT_NEAR(student_t95(60), 2.000, 5e-4);
  EXPECT_NEAR(student_t95(120), 1.980, 5e-4);
  EXPECT_THROW(student_t95(0), Error);
}

TEST(Statistics, MeanDeviationInterval) {
  const std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(mean(values), 5);
  EXPECT_DOUBLE_EQ(standard_deviation(values), std::sqrt(32.0 / 7));
  EXPECT_NEAR(interval95({1, 2, 3}), 4.302653 / std::sqrt(3.0), 1e-6);
  EXPECT_EQ(interval95({7}), 0);
  EXPECT_EQ(standard_deviation({7}), 0);
  EXPECT_EQ(interval95({7, 7, 7}), 0);
  EXPECT_THROW(mean({}), Error);
  EXPECT_THROW(interval95({}), Error);
}

TEST(Statistics, ASeedsRepeatsAreOneNumber) {
  using Runs = std::vector<SeedNumber>;
  EXPECT_EQ(by_seed({}), Runs{});
  EXPECT_EQ(by_seed(Runs{{1, 0.1}, {1, 0.1}, {1, 0.1}}), (Runs{{1, 0.1}}));
  EXPECT_EQ(by_seed(Runs{{2, 4}, {1, 1}, {2, 6}, {3, 9}}), (Runs{{2, 5}, {1, 1}, {3, 9}}));
  EXPECT_EQ(numbers_of(Runs{{2, 5}, {1, 1}}), (std::vector<double>{5, 1}));
}

TEST(Statistics, ThePairedTTestHoldsItsDefinition) {
  const std::vector<double> some{0.5, 0.9, 0.8, 1.5, -0.2};  // t = 0.7 / (0.6205 / sqrt(5))
  EXPECT_NEAR(paired_t_test(some), 2 * (1 - student_below(mean(some) / standard_deviation(some) * std::sqrt(5), 4)),
              1e-9);
  EXPECT_NEAR(paired_t_test(some), 0.065174, 1e-6);
  // One degree of freedom is Cauchy's distribution: p = 1 - 2 atan(t) / pi, here t = 3.
  EXPECT_NEAR(paired_t_test({1, 2}), 1 - 2 * std::atan(3.0) / std::numbers::pi, 1e-12);
  EXPECT_NEAR(paired_t_test({-1, -2}), paired_t_test({1, 2}), 1e-12);
  EXPECT_EQ(paired_t_test({0, 0, 0}), 1);
  EXPECT_EQ(paired_t_test({2, 2, 2}), 0);
  EXPECT_EQ(paired_t_test({1, -1}), 1);
  EXPECT_THROW(paired_t_test({1}), Error);
  for (const std::size_t v : {1, 2, 4, 9}) {  // where the interval just ends at 0
    std::vector<double> values(v + 1, 1);
    const double half = interval95({0, 1}) / student_t95(1);
    values[0] += half;
    const double shift = mean(values) - interval95(values);
    for (double& one : values) one -= shift;
    EXPECT_NEAR(paired_t_test(values), 0.05, 1e-9) << v;
  }
}

TEST(Statistics, HolmsCorrection) {
  // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
  const std::vector<double> corrected = holm({0.01, 0.04, 0.03, 0.005});
  const double right[] = {0.03, 0.06, 0.06, 0.02};
  for (std::size_t i = 0; i < corrected.size(); ++i) EXPECT_DOUBLE_EQ(corrected[i], right[i]) << i;
  EXPECT_EQ(holm({}), std::vector<double>{});
  EXPECT_EQ(holm({0.9, 0.8}), (std::vector<double>{1, 1}));
}

TEST(Statistics, Quantiles) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4}, 0.25), 1.75);  // as numpy.quantile
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4}, 1), 4);
  EXPECT_DOUBLE_EQ(quantile({5}, 0.9), 5);
  EXPECT_THROW(median({}), Error);
  EXPECT_THROW(quantile({1}, 1.5), Error);
}

}  // namespace
}  // namespace ripieno::report
