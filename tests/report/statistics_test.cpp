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
  using Runs = std::vector<std::pair<std::int64_t, double>>;
  EXPECT_EQ(by_seed({}), std::vector<double>{});
  EXPECT_EQ(by_seed(Runs{{1, 0.1}, {1, 0.1}, {1, 0.1}}), std::vector<double>{0.1});
  EXPECT_EQ(by_seed(Runs{{2, 4}, {1, 1}, {2, 6}, {3, 9}}), (std::vector<double>{5, 1, 9}));
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
