#include "ripieno/codec/int8.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/codec/cases.h"

namespace ripieno::codec {
namespace {

template <class T>
void by_hand() {
  // First block: the largest is 127, the scale 1; 63.5, -0.5, 1.5 and 2.5 lie in the middle and go to 64, 0, 2 and 2.
  // Second block: the largest is 254, the scale 2 (fp32 0x40000000): -254 -> -127 (0x81), 3 -> 1.5 -> 2.
  const std::vector<T> x = {127, 63.5, -0.5, 1.5, 2.5, -127, 0, 1, -254, 3};
  Random random(1);
  const auto codec = make_int8(8);
  const auto bytes = encoded(*codec, x, random);
  EXPECT_EQ(bytes, bytes_of({0, 0, 0x80, 0x3F, 127, 64, 0, 2, 2, 0x81, 0, 1, 0, 0, 0, 0x40, 0x81, 2}));
  EXPECT_EQ(decoded<T>(*codec, bytes, 10), (std::vector<T>{127, 64, 0, 2, 2, -127, 0, 1, -254, 4}));
}

TEST(Int8, ByHandFp32) { by_hand<float>(); }
TEST(Int8, ByHandFp64) { by_hand<double>(); }

template <class T>
void errors_are_within_half_a_scale() {
  Random random(2);
  for (const std::size_t block : {8u, 64u, 256u}) {
    const auto codec = make_int8(block);
    for (int round = 0; round < 200; ++round) {
      const auto x = numbers<T>(block, random);
      const auto bytes = encoded(*codec, x, random);
      const auto y = decoded<T>(*codec, bytes, block);
      double largest = 0;
      for (const T value : x) largest = std::max(largest, std::abs(double(value)));
      for (std::size_t i = 0; i < block; ++i)
        ASSERT_LE(std::abs(double(x[i]) - y[i]), largest / 254 * (1 + 1e-6)) << x[i];
      // A contraction: each error is within its number, the largest number's within 2^-16 of it.
      ASSERT_LE(square(x, y), (1 - 0.999 / double(block)) * square(x));
      // Products of a scale and a code are exact in fp32, and what was decoded encodes to the same bytes.
      const auto wide = decoded<double>(*codec, bytes, block);
      for (std::size_t i = 0; i < block; ++i) ASSERT_EQ(y[i], wide[i]);
      ASSERT_EQ(encoded(*codec, y, random), bytes);
    }
  }
}

TEST(Int8, ErrorsAreWithinHalfAScaleFp32) { errors_are_within_half_a_scale<float>(); }
TEST(Int8, ErrorsAreWithinHalfAScaleFp64) { errors_are_within_half_a_scale<double>(); }

TEST(Int8, Fp64BeyondFp32sRangeFitsWhileItsScaleDoes) {
  Random random(3);
  const auto codec = make_int8(8);
  const auto large = round_trip<double>(*codec, {1e39, -5e38}, random);
  EXPECT_NEAR(large[0], 1e39, 2e34);
  EXPECT_NEAR(large[1], -5e38, 4e36);
  EXPECT_FALSE(std::isfinite(round_trip<double>(*codec, {1e300}, random)[0]));
}

TEST(Int8, ABlockThatIsNotFiniteIsNanAndItsNeighboursAreAsTheyWere) {
  Random random(4);
  auto x = numbers<float>(24, random), good = x;
  x[9] = std::numeric_limits<float>::infinity();
  const auto codec = make_int8(8);
  const auto y = round_trip(*codec, x, random), expected = round_trip(*codec, good, random);
  for (std::size_t i = 0; i < 24; ++i) {
    if (i / 8 == 1) {
      EXPECT_TRUE(std::isnan(y[i])) << i;
    } else {
      EXPECT_EQ(y[i], expected[i]) << i;
    }
  }
}

}  // namespace
}  // namespace ripieno::codec
