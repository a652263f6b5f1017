#include "ripieno/numeric/elementwise.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "ripieno/core/random.h"

namespace ripieno::numeric {
namespace {

/// With the kernels for each kind of processor that this one can stand in for.
template <class Test>
void on_every_processor(Test test) {
  const auto choose = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);  // 0: what there is
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    choose(target);
    test();
    choose(0);
  }
}

/// Reference: the nearest of all values of a 16-bit format, ties to the even pattern, by the definition of the format.
double value_of(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

template <DType type>
double as_double(std::uint16_t bits) {
  return type == DType::fp16 ? value_of(bits, 5, 10) : value_of(bits, 8, 7);
}

template <DType type>
void every_value_survives() {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    std::uint16_t narrow = static_cast<std::uint16_t>(bits), back = 0;
    float wide = 0;
    convert(NumberSpan(&wide, 1, DType::fp32), NumberSpan(&narrow, 1, type));
    const double expected = as_double<type>(narrow);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide)) << bits;
      continue;
    }
    ASSERT_EQ(wide, expected) << bits;
    convert(NumberSpan(&back, 1, type), NumberSpan(&wide, 1, DType::fp32));
    ASSERT_EQ(back, narrow) << bits;
  }
}

#if defined(__SSE__)
/// Also where the user's thread takes denormal fp32 numbers for zeros: those of fp16 are none in fp32.
TEST(Kernels, EveryFp16SurvivesWhereDenormalNumbersAreFlushed) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  on_every_processor(every_value_survives<DType::fp16>);
  _mm_setcsr(before);
}
#endif

TEST(Kernels, EveryFp16Survives) { on_every_processor(every_value_survives<DType::fp16>); }
TEST(Kernels, EveryBf16Survives) { on_every_processor(every_value_survives<DType::bf16>); }

template <DType type>
void rounds_to_nearest_even() {
  // Halfway between each pair of neighbours goes to the even pattern; a nudge decides otherwise.
  const std::uint16_t last = type == DType::fp16 ? 0x7BFE : 0x7F7E;
  for (std::uint16_t bits = 0; bits < last; ++bits) {
    const double low = as_double<type>(bits), high = as_double<type>(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    if (middle != (low + high) / 2) continue;  // fp32 cannot hold it (bf16's smallest)
    const auto rounded = [&](float x) {
      std::uint16_t out = 0;
      convert(NumberSpan(&out, 1, type), NumberSpan(&x, 1, DType::fp32));
      return out;
    };
    ASSERT_EQ(rounded(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(rounded(std::nextafter(middle, INFINITY)), bits + 1) << bits;
    ASSERT_EQ(rounded(std::nextafter(middle, -INFINITY)), bits) << bits;
  }
}

TEST(Kernels, Fp16RoundsToNearestEven) { on_every_processor(rounds_to_nearest_even<DType::fp16>); }
TEST(Kernels, Bf16RoundsToNearestEven) { on_every_processor(rounds_to_nearest_even<DType::bf16>); }

void nan_and_overflow() {
  float values[3] = {NAN, 1e6f, -1e6f};
  std::uint16_t half[3], brain[3];
  convert(NumberSpan(half, 3, DType::fp16), NumberSpan(values, 3, DType::fp32));
  convert(NumberSpan(brain, 3, DType::bf16), NumberSpan(values, 3, DType::fp32));
  EXPECT_TRUE(std::isnan(as_double<DType::fp16>(half[0])));
  EXPECT_TRUE(std::isnan(as_double<DType::bf16>(brain[0])));
  EXPECT_EQ(as_double<DType::fp16>(half[1]), INFINITY);
  EXPECT_EQ(as_double<DType::fp16>(half[2]), -INFINITY);
  EXPECT_NEAR(as_double<DType::bf16>(brain[1]), 1e6, 4e3);
}

TEST(Kernels, NanAndOverflow) { on_every_processor(nan_and_overflow); }

void adds_converts_and_scales() {
  for (const std::size_t n : {0u, 1u, 3u, 8u, 17u, 1000u, 1537u}) {
    for (const DType wide_type : {DType::fp32, DType::fp64}) {
      for (const DType narrow_type : {DType::fp16, DType::bf16, DType::fp32, DType::fp64}) {
        if (size_of(narrow_type) > size_of(wide_type)) continue;
        Random random(n);
        std::vector<double> source(n), memory(n, 0), narrow(n, 0), back(n, 0);
        for (double& x : source) x = std::ldexp(static_cast<double>(random.below(64)), -3);  // exact in every type
        const NumberSpan wide(memory.data(), n, wide_type), small(narrow.data(), n, narrow_type);
        if (wide_type == DType::fp64) {
          std::copy(source.begin(), source.end(), memory.begin());
        } else {
          for (std::size_t i = 0; i < n; ++i) wide.as<float>()[i] = static_cast<float>(source[i]);
        }
        convert(small, wide);
        add(wide, small);
        scale(wide, 0.25);
        for (std::size_t i = 0; i < n; ++i) {
          const double got = wide_type == DType::fp64 ? wide.as<double>()[i] : wide.as<float>()[i];
          ASSERT_EQ(got, source[i] / 2) << "n=" << n << " i=" << i << " " << name(wide_type) << " "
                                        << name(narrow_type);
        }
      }
    }
  }
}

TEST(Kernels, AddsConvertsAndScalesEveryPairAndLength) { on_every_processor(adds_converts_and_scales); }

template <class T>
void adds_to_both(DType type) {
  for (const std::size_t n : {0u, 1u, 3u, 8u, 17u, 1000u, 1537u}) {
    std::vector<T> a(n + 1, 7), b(n + 1, 7);
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = static_cast<T>(i) / 3;
      b[i] = 1 - static_cast<T>(i) / 7;
    }
    std::vector<T> sum = a;
    for (std::size_t i = 0; i < n; ++i) sum[i] += b[i];
    add_to_both(NumberSpan(a.data(), n, type), NumberSpan(b.data(), n, type));
    EXPECT_EQ(a, sum) << n;
    EXPECT_EQ(b, sum) << n;
  }
}

TEST(Kernels, AddsToBoth) {
  adds_to_both<float>(DType::fp32);
  adds_to_both<double>(DType::fp64);
  float wide = 1;
  std::uint16_t narrow = 0;
  EXPECT_THROW(add_to_both(NumberSpan(&wide, 1, DType::fp32), NumberSpan(&narrow, 1, DType::bf16)), Error);
}

template <class T>
void subtracts_and_carries_over(DType type) {
  for (const std::size_t n : {0u, 1u, 3u, 8u, 17u, 1000u, 1537u}) {
    std::vector<T> into(n + 1, 7), a(n + 1, 5), b(n + 1, 3), difference(n + 1, 7), carried(n + 1, 7);
    for (std::size_t i = 0; i < n; ++i) {
      into[i] = static_cast<T>(i) / 5;
      a[i] = static_cast<T>(i) / 3;
      b[i] = 1 - static_cast<T>(i) / 7;
      difference[i] = a[i] - b[i];
      carried[i] = (into[i] - a[i]) + b[i];
    }
    const auto span = [&](std::vector<T>& numbers) { return NumberSpan(numbers.data(), n, type); };
    carry_over(span(into), span(a), span(b));
    EXPECT_EQ(into, carried) << n;
    subtract(span(into), span(a), span(b));
    EXPECT_EQ(into, difference) << n;
    a.back() = 7;
    subtract(span(a), span(a), span(b));  // in place
    EXPECT_EQ(a, difference) << n;
  }
}

TEST(Kernels, SubtractsAndCarriesOver) {
  subtracts_and_carries_over<float>(DType::fp32);
  subtracts_and_carries_over<double>(DType::fp64);
  float one = 1;
  double wide = 1;
  const NumberSpan narrow(&one, 1, DType::fp32), other(&wide, 1, DType::fp64);
  EXPECT_THROW(subtract(narrow, narrow, other), Error);
  EXPECT_THROW(carry_over(narrow, other, narrow), Error);
  EXPECT_THROW(subtract(narrow, narrow, NumberSpan(&one, 0, DType::fp32)), Error);
}

TEST(Kernels, RoundThroughIsIdempotentAndMatchesTheWire) {
  std::vector<float> values(1201);
  Random random(5);
  for (float& x : values) x = static_cast<float>(random.uniform(-3, 3));
  std::vector<std::uint16_t> wire(values.size());
  convert(NumberSpan(wire.data(), wire.size(), DType::bf16), NumberSpan(values));
  round_through(NumberSpan(values), DType::bf16);
  std::vector<float> arrived(values.size());
  convert(NumberSpan(arrived), NumberSpan(wire.data(), wire.size(), DType::bf16));
  EXPECT_EQ(values, arrived);
  const std::uint64_t digest = hash(NumberSpan(values));
  round_through(NumberSpan(values), DType::bf16);
  EXPECT_EQ(digest, hash(NumberSpan(values)));
  values[1200] += 1;
  EXPECT_NE(digest, hash(NumberSpan(values)));
}

TEST(Kernels, Fp64IsAddedToFp32AndRoundedOnce) {
  // 1 + (2^-24 + 2^-50) lies above the middle of 1 and the next fp32; 2^-24 + 2^-50 by itself rounds to 2^-24, and
  // 1 + 2^-24 lies in the middle and rounds to even, which is 1.
  std::vector<float> into(19, 1.0f);
  std::vector<double> from(19, 0x1p-24 + 0x1p-50);
  add(into, from);
  for (const float x : into) ASSERT_EQ(x, 1.0f + 0x1p-23f);
}

template <class T>
void finds_what_is_not_finite() {
  using limits = std::numeric_limits<T>;
  for (const std::size_t n : {0u, 1u, 2u, 7u, 8u, 16u, 33u, 130u}) {
    std::vector<T> values(n);
    for (std::size_t i = 0; i < n; ++i)
      values[i] = i % 3 ? (i % 2 ? limits::max() : limits::lowest()) : limits::denorm_min();
    EXPECT_TRUE(all_finite(NumberSpan(values))) << n;
    for (std::size_t i = 0; i < n; ++i) {
      for (const T bad : {limits::infinity(), -limits::infinity(), limits::quiet_NaN()}) {
        const T good = std::exchange(values[i], bad);
        ASSERT_FALSE(all_finite(NumberSpan(values))) << bad << " at " << i << " of " << n;
        values[i] = good;
      }
    }
  }
}

TEST(Kernels, FindsWhatIsNotFiniteInFp32) { finds_what_is_not_finite<float>(); }
TEST(Kernels, FindsWhatIsNotFiniteInFp64) { finds_what_is_not_finite<double>(); }

TEST(Kernels, SpansWithoutDataAreSkipped) {
  const NumberSpan nothing(nullptr, 100, DType::fp32);
  add(nothing, nothing);
  add_to_both(nothing, nothing);
  subtract(nothing, nothing, nothing);
  carry_over(nothing, nothing, nothing);
  convert(nothing, nothing);
  scale(nothing, 2);
  round_through(nothing, DType::fp16);
  EXPECT_TRUE(all_finite(nothing));
}

}  // namespace
}  // namespace ripieno::numeric
