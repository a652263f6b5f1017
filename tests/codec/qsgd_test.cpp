#include "ripieno/codec/qsgd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numbers>

#include "ripieno/codec/numbers.h"
#include "tests/codec/cases.h"

namespace ripieno::codec {
namespace {

template <class T>
void qsgd_by_hand() {
  // 3 bits: s = 3. The maximum of (3, -1, 2) is 3 (fp32 0x40400000), so r = 3, 1, 2 and nothing is left to chance.
  // Codes 011, 101 (sign and 1) and 010 from the lowest bit on: 3 + 5 * 8 + 2 * 64 = 0xAB; the other five are 0.
  const std::vector<T> x = {3, -1, 2, 0, 0, 0, 0, 0};
  Random random(1);
  for (const bool contraction : {false, true}) {  // omega = 0
    const auto codec = make_qsgd(8, 3, contraction);
    const auto bytes = encoded(*codec, x, random);
    EXPECT_EQ(bytes, bytes_of({0, 0, 0x40, 0x40, 0xAB, 0, 0}));
    EXPECT_EQ(decoded<T>(*codec, bytes, 8), x);
  }
  // 2 bits: s = 1. r of (2, 1) is 1 and 1/2, so omega = 1/4 / (1 + 1/4) = 1/5, and 2 / (6/5) = 5/3 is sent for 2.
  const auto codec = make_qsgd(8, 2, true);
  bool down = false, up = false;
  for (int draw = 0; draw < 40; ++draw) {
    const auto bytes = encoded(*codec, std::vector<T>{2, 1}, random);
    const auto y = decoded<T>(*codec, bytes, 2);
    EXPECT_EQ(load<float>(bytes.data()), 5.0f / 3);
    EXPECT_EQ(y[0], T(5.0f / 3));
    EXPECT_TRUE(y[1] == 0 || y[1] == y[0]);
    EXPECT_EQ(bytes[4], std::byte(y[1] == 0 ? 0b0001 : 0b0101));
    (y[1] == 0 ? down : up) = true;
  }
  EXPECT_TRUE(down && up);
}

TEST(Qsgd, ByHandFp32) { qsgd_by_hand<float>(); }
TEST(Qsgd, ByHandFp64) { qsgd_by_hand<double>(); }

double levels(int bits) { return (1 << (bits - 1)) - 1; }

/// The largest omega there is, of one 1 and n-1 numbers of worst_number().
double worst_omega(std::size_t n, int bits) {
  return (std::sqrt(1 + double(n - 1) / (levels(bits) * levels(bits))) - 1) / 2;
}
double worst_number(std::size_t n, int bits) { return 1 / (2 * levels(bits) * (1 + worst_omega(n, bits))); }

/// Between which levels, `level` apart, the numbers of a block lie, and how probable the upper one is.
template <class T>
struct Rounding {
  double level, omega = 0;
  std::vector<double> low, up;

  Rounding(const std::vector<T>& x, int bits) {
    double most = 0;
    for (const T value : x) most = std::max(most, std::abs(double(value)));
    auto scale = static_cast<float>(most);
    if (scale < most) scale = std::nextafter(scale, std::numeric_limits<float>::infinity());
    level = scale / levels(bits);
    for (const T value : x) {
      const double r = std::abs(value) / level;
      low.push_back(std::floor(r));
      up.push_back(r - low.back());
      omega += level * level * up.back() * (1 - up.back());
    }
    omega /= square(x);
  }

  /// The variance of ||x - share D||^2.
  double variance(const std::vector<T>& x, double share) const {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double down = std::abs(x[i]) - share * level * low[i], beyond = down - share * level;
      sum += up[i] * (1 - up[i]) * std::pow(down * down - beyond * beyond, 2);
    }
    return sum;
  }
};

/// ||x - y||^2, on average over `draws`.
template <class T>
double mean_error(const Codec& codec, const std::vector<T>& x, int draws, Random& random) {
  double error = 0;
  for (int draw = 0; draw < draws; ++draw) error += square(x, round_trip(codec, x, random)) / draws;
  return error;
}

template <class T>
void is_unbiased_and_errors_are_within_a_level() {
  constexpr int draws = 4000;
  Random random(2);
  for (const int bits : {2, 3, 4, 8}) {
    for (const std::size_t n : {8u, 61u}) {
      const auto codec = make_qsgd(64, bits, false);
      const auto x = numbers<T>(n, random);
      const Rounding<T> rounding(x, bits);
      const double level = rounding.level;
      std::vector<double> sum(n);
      for (int draw = 0; draw < draws; ++draw) {
        const auto y = round_trip(*codec, x, random);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_LE(std::abs(y[i] - x[i]), level * (1 + 1e-6));
          sum[i] += y[i];
        }
      }
      double off = 0, off_variance = 0;  // of all numbers together
      for (std::size_t i = 0; i < n; ++i) {
        const double variance = level * level * rounding.up[i] * (1 - rounding.up[i]) / draws;
        // Where a level is reached in one draw of thousands, three times more or less are no bias.
        const double bound = 5 * std::sqrt(variance) + 3 * level / draws + 1e-5 * level;
        ASSERT_LE(std::abs(sum[i] / draws - x[i]), bound) << bits << " bits, number " << i;
        off += std::abs(sum[i] / draws) - std::abs(x[i]);
        off_variance += variance;
      }
      EXPECT_LE(std::abs(off), 4 * std::sqrt(off_variance)) << bits << " bits";
    }
  }
}

TEST(Qsgd, IsUnbiasedFp32) { is_unbiased_and_errors_are_within_a_level<float>(); }
TEST(Qsgd, IsUnbiasedFp64) { is_unbiased_and_errors_are_within_a_level<double>(); }

template <class T>
void errors_are_on_average_what_is_claimed() {
  constexpr int draws = 2000;
  Random random(3);
  for (const int bits : {2, 3, 4, 6, 8}) {
    for (const std::size_t n : {2u, 8u, 100u, 256u}) {
      const auto spread = numbers<T>(n, random);
      std::vector<T> spike(n, static_cast<T>(worst_number(n, bits)));
      spike[n / 2] = -1;
      for (const auto& x : {spread, spike}) {
        const Rounding<T> rounding(x, bits);
        const double omega = rounding.omega, shrunk = 1 / (1 + omega), all = square(x);
        ASSERT_LE(omega, worst_omega(n, bits) * (1 + 1e-6));
        ASSERT_LE(omega, double(n) / (4 * levels(bits) * levels(bits)));
        EXPECT_NEAR(mean_error(*make_qsgd(256, bits, false), x, draws, random), omega * all,
                    4 * std::sqrt(rounding.variance(x, 1) / draws) + 1e-6 * all)
            << bits << " bits, " << n << " numbers";
        // What its residual keeps is never as large as the step, whatever omega.
        EXPECT_NEAR(mean_error(*make_qsgd(256, bits, true), x, draws, random), omega * shrunk * all,
                    4 * std::sqrt(rounding.variance(x, shrunk) / draws) + 1e-6 * all)
            << bits << " bits, " << n << " numbers";
      }
    }
  }
}

TEST(Qsgd, ErrorsAreOnAverageWhatIsClaimedFp32) { errors_are_on_average_what_is_claimed<float>(); }
TEST(Qsgd, ErrorsAreOnAverageWhatIsClaimedFp64) { errors_are_on_average_what_is_claimed<double>(); }

/// The omega of the only block, from the scale that is sent.
template <class T>
double sent_omega(const std::vector<T>& x, int bits, Random& random) {
  const auto unbiased = encoded(*make_qsgd(1 << 20, bits, false), x, random);
  const auto shrunk = encoded(*make_qsgd(1 << 20, bits, true), x, random);
  return double(load<float>(unbiased.data())) / load<float>(shrunk.data()) - 1;
}

template <class T>
void blocks_shrink_by_their_own_omega() {
  Random random(4);
  for (const int bits : {2, 3, 4, 5, 6, 7, 8}) {
    for (const std::size_t n : {1u, 7u, 256u, 1000u, 70000u}) {  // the last ones take more than one piece
      std::vector<T> x(n, static_cast<T>(worst_number(n, bits)));
      x[n - 1] = 1;
      const double worst = worst_omega(n, bits);
      EXPECT_NEAR(sent_omega(x, bits, random), worst, 1e-5 * (1 + worst)) << bits << " bits, " << n << " numbers";
      x = numbers<T>(n, random);
      x[0] = 1;
      const double omega = Rounding<T>(x, bits).omega;
      EXPECT_NEAR(sent_omega(x, bits, random), omega, 1e-5 * (1 + omega)) << bits << " bits, " << n << " numbers";
    }
  }
}

TEST(Qsgd, BlocksShrinkByTheirOwnOmegaFp32) { blocks_shrink_by_their_own_omega<float>(); }
TEST(Qsgd, BlocksShrinkByTheirOwnOmegaFp64) { blocks_shrink_by_their_own_omega<double>(); }

TEST(Qsgd, GaussianNumbersLoseLittle) {
  Random random(5);
  double mean = 0;
  for (int block = 0; block < 200; ++block) {
    std::vector<float> x(256);
    for (float& value : x) {
      const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));  // Box and Muller
      value = static_cast<float>(1e-3 * radius * std::cos(2 * std::numbers::pi * random.uniform()));
    }
    const double omega = sent_omega(x, 4, random);
    ASSERT_LT(omega, 0.1);
    mean += omega / 200;
  }
  EXPECT_NEAR(mean, 0.03, 0.005);
}

TEST(Qsgd, ScalesAtBothEndsOfTheRange) {
  Random random(6);
  for (const int bits : {2, 3, 4, 5, 6, 7, 8}) {
    for (const bool contraction : {false, true}) {
      const auto codec = make_qsgd(8, bits, contraction);
      for (const float magnitude : {2e-38f, 1e-30f, 1e30f, std::numeric_limits<float>::max()}) {
        const auto y = round_trip<float>(*codec, {magnitude, -magnitude}, random);
        EXPECT_NEAR(y[0] / magnitude, 1, 1e-5) << bits << " bits";
        EXPECT_NEAR(y[1] / magnitude, -1, 1e-5) << bits << " bits";
      }
      EXPECT_EQ(round_trip<float>(*codec, {1e-39f, 1e-40f}, random), (std::vector<float>{0, 0}));
      EXPECT_TRUE(std::isnan(round_trip<double>(*codec, {1, 1e39}, random)[0]));
    }
  }
  // In fp64 the maximum may lie between two fp32: the upper one is its scale, and no level is beyond the last one.
  const auto codec = make_qsgd(8, 8, false);
  const std::vector<double> x = {1 + 0x1p-30, -0.5};
  const auto bytes = encoded(*codec, x, random);
  EXPECT_EQ(load<float>(bytes.data()), 1 + 0x1p-23f);
  EXPECT_NEAR(decoded<double>(*codec, bytes, 2)[0], 1, 1e-6);
}

}  // namespace
}  // namespace ripieno::codec
