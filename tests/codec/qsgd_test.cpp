#include "ripieno/codec/qsgd.h"

#include <gtest/gtest.h>

#include "tests/codec/cases.h"

namespace ripieno {
namespace {

template <class T>
void by_hand() {
  // 3 bits: s = 3. The norm of (2, -1, 2) is 3 (fp32 0x40400000), so r = 2, 1, 2 and nothing is left to chance. Codes 010,
  // 101 (sign and 1) and 010 from the lowest bit on: 2 + 5 * 8 + 2 * 64 = 0xAA; the other five numbers are 0.
  const std::vector<T> x = {2, -1, 2, 0, 0, 0, 0, 0};
  Random random(1);
  const auto codec = make_qsgd(8, 3, false);
  const auto bytes = encoded(*codec, x, random);
  EXPECT_EQ(bytes, bytes_of({0, 0, 0x40, 0x40, 0xAA, 0, 0}));
  EXPECT_EQ(decoded<T>(*codec, bytes, 8), x);
  // d = 8: omega = min(8 / 9, sqrt(8) / 3 = 0.94) = 8 / 9, and the same bytes are decoded to 9 / 17 of that.
  const auto contraction = make_qsgd(8, 3, true);
  EXPECT_EQ(encoded(*contraction, x, random), bytes);
  const auto y = decoded<T>(*contraction, bytes, 8);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(y[i], x[i] * 9 / 17, 1e-6);
}

TEST(Qsgd, ByHandFp32) { by_hand<float>(); }
TEST(Qsgd, ByHandFp64) { by_hand<double>(); }

double omega(double d, int bits) {
  const double s = (1 << (bits - 1)) - 1;
  return std::min(d / (s * s), std::sqrt(d) / s);
}

template <class T>
void is_unbiased_and_errors_are_within_a_level() {
  constexpr int draws = 4000;
  Random random(2);
  for (const int bits : {2, 3, 4, 8}) {
    for (const std::size_t n : {8u, 61u}) {
      const auto codec = make_qsgd(64, bits, false);
      const auto x = numbers<T>(n, random);
      const double level = std::sqrt(square(x)) / ((1 << (bits - 1)) - 1);
      std::vector<double> sum(n);
      double error = 0;
      for (int draw = 0; draw < draws; ++draw) {
        const auto y = round_trip(*codec, x, random);
        error += square(x, y) / draws;
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_LE(std::abs(y[i] - x[i]), level * (1 + 1e-6));
          sum[i] += y[i];
        }
      }
      double off = 0, off_variance = 0;  // of all numbers together
      for (std::size_t i = 0; i < n; ++i) {
        const double r = std::abs(x[i]) / level, up = r - std::floor(r);
        const double variance = level * level * up * (1 - up) / draws;
        // Where a level is reached in one draw of thousands, three times more or less are no bias.
        const double bound = 5 * std::sqrt(variance) + 3 * level / draws + 1e-6 * level;
        ASSERT_LE(std::abs(sum[i] / draws - x[i]), bound) << bits << " bits, number " << i << ", r = " << r;
        off += std::abs(sum[i] / draws) - std::abs(x[i]);
        off_variance += variance;
      }
      EXPECT_LE(std::abs(off), 4 * std::sqrt(off_variance)) << bits << " bits";
      EXPECT_LE(error, omega(double(n), bits) * square(x) * 1.02) << bits << " bits";
      EXPECT_GT(error, 0);
    }
  }
}

TEST(Qsgd, IsUnbiasedFp32) { is_unbiased_and_errors_are_within_a_level<float>(); }
TEST(Qsgd, IsUnbiasedFp64) { is_unbiased_and_errors_are_within_a_level<double>(); }

TEST(Qsgd, ForErrorFeedbackItContractsOnAverage) {
  constexpr int draws = 1000;
  Random random(3);
  for (const int bits : {2, 3, 4, 6, 8}) {
    for (const std::size_t n : {1u, 8u, 100u, 256u}) {
      const auto codec = make_qsgd(256, bits, true);
      auto x = numbers<float>(n, random);
      x[0] = 1;
      double error = 0;
      for (int draw = 0; draw < draws; ++draw) error += square(x, round_trip(*codec, x, random)) / draws;
      const double w = omega(double(n), bits);
      EXPECT_LE(error, w / (1 + w) * square(x) * 1.02) << bits << " bits, " << n << " numbers";
    }
  }
}

TEST(Qsgd, NormsAtBothEndsOfTheRange) {
  Random random(4);
  const auto codec = make_qsgd(8, 8, false);
  for (const float magnitude : {2e-38f, 1e-30f, 1e30f, 1e38f}) {
    const auto y = round_trip<float>(*codec, {magnitude, -magnitude}, random);
    EXPECT_NEAR(y[0] / magnitude, 1, 0.02);
    EXPECT_NEAR(y[1] / magnitude, -1, 0.02);
  }
  EXPECT_TRUE(std::isnan(round_trip<float>(*codec, {3e38f, 3e38f}, random)[0]));
  EXPECT_EQ(round_trip<float>(*codec, {1e-39f, 1e-40f}, random), (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace ripieno
