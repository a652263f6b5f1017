#include "ripieno/codec/wire_codec.h"

#include <gtest/gtest.h>

#include "ripieno/numeric/elementwise.h"
#include "tests/codec/cases.h"

namespace ripieno::codec {
namespace {

TEST(WireCodec, ByHand) {
  // 1 is 0x3F800000 in fp32, 0x3C00 in fp16 and 0x3F80 in bf16; -2 is 0xC0000000, 0xC000 and 0xC000; little-endian.
  Random random(1);
  const std::vector<float> x = {1, -2};
  EXPECT_EQ(encoded(*make_wire(DType::fp32), x, random), bytes_of({0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0}));
  EXPECT_EQ(encoded(*make_wire(DType::fp16), x, random), bytes_of({0, 0x3C, 0, 0xC0}));
  EXPECT_EQ(encoded(*make_wire(DType::bf16), x, random), bytes_of({0x80, 0x3F, 0, 0xC0}));
}

template <class T>
void errors_are_within_half_a_unit() {
  Random random(2);
  std::vector<T> x(5000);
  for (T& value : x) value = static_cast<T>(random.uniform(0.01, 100) * (random.below(2) ? 1 : -1));
  for (const auto& [type, relative] :
       {std::pair{DType::fp16, 0x1p-11}, {DType::bf16, 0x1p-8}, {DType::fp32, 0x1p-24}}) {
    const auto y = round_trip(*make_wire(type), x, random);
    // fp64 meets 16 bits by way of fp32, which may round a middle the other way: a hair more.
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(std::abs(y[i] - x[i]), std::abs(x[i]) * relative * (1 + 1e-4)) << name(type);
    }
    auto rounded = x;
    numeric::round_through(NumberSpan(rounded), type);
    EXPECT_EQ(y, rounded) << name(type);
  }
}

TEST(WireCodec, ErrorsAreWithinHalfAUnitFp32) { errors_are_within_half_a_unit<float>(); }
TEST(WireCodec, ErrorsAreWithinHalfAUnitFp64) { errors_are_within_half_a_unit<double>(); }

TEST(WireCodec, AutoIsExactInBothTypes) {
  Random random(3);
  const auto single = numbers<float>(1000, random);
  const auto twice = numbers<double>(1000, random);
  EXPECT_EQ(round_trip(*make_codec({.name = "auto"}, DType::fp32), single, random), single);
  EXPECT_EQ(round_trip(*make_codec({.name = "auto"}, DType::fp64), twice, random), twice);
}

}  // namespace
}  // namespace ripieno::codec
