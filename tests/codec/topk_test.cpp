#include "ripieno/codec/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/codec/cases.h"

namespace ripieno::codec {
namespace {

TEST(TopK, HowMany) {
  EXPECT_EQ(top_count(0.01, 0), 0u);
  EXPECT_EQ(top_count(0.01, 1), 1u);
  EXPECT_EQ(top_count(0.01, 100), 1u);
  EXPECT_EQ(top_count(0.01, 101), 2u);
  EXPECT_EQ(top_count(0.07, 100), 7u);  // in doubles 0.07 * 100 is above 7
  EXPECT_EQ(top_count(1, 1000), 1000u);
  EXPECT_EQ(top_count(0.01, 100000000), 1000000u);
}

template <class T>
void topk_by_hand() {
  // A half of six is three: -5, and both of magnitude 3. 0.3 of six, rounded up, is two: -5 (fp32 0xC0A00000), and of
  // the two of magnitude 3 the first (0x40400000).
  const std::vector<T> x = {1, -5, 3, 0, -3, 2};
  Random random(1);
  for (const auto& make : {make_topk, make_topk_sampled}) {
    const auto three = make(0.5);
    EXPECT_EQ(round_trip(*three, x, random), (std::vector<T>{0, -5, 3, 0, -3, 0}));
  }
  const auto two = make_topk(0.3);
  const auto bytes = encoded(*two, x, random);
  EXPECT_EQ(bytes, bytes_of({1, 0, 0, 0, 0, 0, 0xA0, 0xC0, 2, 0, 0, 0, 0, 0, 0x40, 0x40}));
  EXPECT_EQ(decoded<T>(*two, bytes, 6), (std::vector<T>{0, -5, 3, 0, 0, 0}));
}

TEST(TopK, ByHandFp32) { topk_by_hand<float>(); }
TEST(TopK, ByHandFp64) { topk_by_hand<double>(); }

/// Reference: sort all indices by magnitude, ties by index.
template <class T>
std::vector<T> largest(const std::vector<T>& x, std::size_t k) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
  std::vector<T> y(x.size());
  for (std::size_t i = 0; i < k; ++i) y[order[i]] = static_cast<float>(x[order[i]]);
  return y;
}

template <class T>
void agrees_with_sorting() {
  Random random(2);
  for (const double fraction : {0.001, 0.01, 0.2, 0.9, 1.0}) {
    const auto codec = make_topk(fraction);
    for (const std::size_t n : {1u, 2u, 3u, 17u, 256u, 5000u}) {
      auto x = numbers<T>(n, random);
      const std::size_t k = top_count(fraction, n);
      ASSERT_EQ(round_trip(*codec, x, random), largest(x, k)) << fraction << " of " << n;
      EXPECT_LE(square(x, round_trip(*codec, x, random)), (1 - double(k) / double(n)) * square(x) + 1e-12 * square(x));
      for (T& value : x) value = static_cast<T>(std::round(value * 4));  // many ties
      ASSERT_EQ(round_trip(*codec, x, random), largest(x, k)) << fraction << " of " << n << ", ties";
    }
  }
}

TEST(TopK, AgreesWithSortingFp32) { agrees_with_sorting<float>(); }
TEST(TopK, AgreesWithSortingFp64) { agrees_with_sorting<double>(); }

TEST(TopK, WhatIsNotFiniteGoesFirst) {
  Random random(3);
  std::vector<float> x(1000, std::numeric_limits<float>::max());
  x[700] = std::numeric_limits<float>::quiet_NaN();
  x[300] = -std::numeric_limits<float>::infinity();
  const auto bytes = encoded(*make_topk(0.002), x, random);
  const auto y = decoded<float>(*make_topk(0.002), bytes, x.size());
  EXPECT_EQ(y[300], x[300]);
  EXPECT_TRUE(std::isnan(y[700]));
  const auto sampled = round_trip(*make_topk_sampled(0.002), x, random);
  EXPECT_EQ(sampled[300], x[300]);
  EXPECT_TRUE(std::isnan(sampled[700]));
}

TEST(TopK, SampledSendsAboutAsMany) {
  Random random(4);
  for (const std::size_t n : {2000u, 20000u, 300000u}) {
    const auto codec = make_topk_sampled(0.05);
    for (int round = 0; round < 5; ++round) {
      std::vector<double> x(n);
      for (double& value : x) value = random.uniform(-1, 1);
      const auto bytes = encoded(*codec, x, random);
      const double sent = double(bytes.size()) / 8, k = double(top_count(0.05, n));
      // The threshold's rank is binomial: of a sample of at least 1024, 51 +- 7 lie above it.
      EXPECT_GT(sent, 0.4 * k);
      EXPECT_LE(sent, 2 * k);
      // All at or above some threshold, and nothing below it.
      const auto y = decoded<double>(*codec, bytes, n);
      EXPECT_EQ(y, largest(x, bytes.size() / 8));
      EXPECT_LE(square(x, y), (1 - 1 / double(n)) * square(x));
    }
  }
}

TEST(TopK, SampledFallsBackToTheExactWhereTheSampleMisleads) {
  // Equal magnitudes all reach the threshold: 3000 > 2 k, so the first k are sent, as the exact codec would.
  Random random(5);
  const std::vector<float> x(3000, -1.5f);
  EXPECT_EQ(encoded(*make_topk_sampled(0.01), x, random), encoded(*make_topk(0.01), x, random));
  // With k = 1 of 1024 or fewer there is no sampling at all.
  const auto few = numbers<float>(1000, random);
  EXPECT_EQ(encoded(*make_topk_sampled(0.01), few, random), encoded(*make_topk(0.01), few, random));
}

TEST(TopK, IndicesThatCannotBeAreRefused) {
  const auto refusal = [](const ByteVector& bytes) -> std::string {
    std::string message;
    for (const auto& make : {make_topk, make_topk_sampled}) {
      std::vector<float> y(6, 7.0f);
      for (const bool adds : {false, true}) {
        try {
          adds ? make(0.3)->add(bytes, y) : make(0.3)->decode(bytes, y);
          ADD_FAILURE() << "accepted";
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::mismatch);
          message = error.what();
        }
      }
      EXPECT_EQ(y, std::vector<float>(6, 7.0f));
    }
    return message;
  };
  const auto names = [&](int first, std::initializer_list<int> second, const std::string& what) {
    ByteVector bytes = bytes_of({first, 0, 0, 0, 0, 0, 0, 0});
    for (const std::byte byte : bytes_of(second)) bytes.push_back(byte);
    bytes.resize(16);
    const std::string message = refusal(bytes);
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  names(1, {6}, "number 6 of 6");
  names(1, {0, 0, 0, 0x80}, "number 2147483648 of 6");
  names(3, {3}, "number 3 after number 3");
  names(4, {2}, "number 2 after number 4");
}

}  // namespace
}  // namespace ripieno::codec
