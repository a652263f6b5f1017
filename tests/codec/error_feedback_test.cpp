#include "ripieno/codec/error_feedback.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "ripieno/numeric/elementwise.h"
#include "tests/codec/cases.h"

namespace ripieno::codec {
namespace {

TEST(ErrorFeedback, ByHand) {
  // Top 1 of 2. (3, 2): 3 is sent, (0, 2) is kept. (1, 1) + (0, 2) = (1, 3): 3 is sent, (1, 0) is kept.
  ErrorFeedback feedback(2, DType::fp32, true);
  const auto codec = make_codec({.name = "topk", .fraction = 0.5}, DType::fp32);
  Random random(1);
  ByteVector bytes;
  std::vector<float> x = {3, 2};
  feedback.encode(*codec, 0, x, random, bytes);
  feedback.commit();
  EXPECT_EQ(x, (std::vector<float>{3, 0}));
  EXPECT_EQ(feedback.residual().as<float>()[1], 2);
  x = {1, 1};
  feedback.encode(*codec, 0, x, random, bytes);
  feedback.commit();
  EXPECT_EQ(x, (std::vector<float>{0, 3}));
  EXPECT_EQ(bytes, bytes_of({1, 0, 0, 0, 0, 0, 0x40, 0x40}));
  EXPECT_EQ(feedback.residual().as<float>()[0], 1);
  EXPECT_EQ(feedback.residual().as<float>()[1], 0);
}

/// After every round: all that was decoded + the residual = all that was to be sent.
template <class T>
void the_sums_telescope(double tolerance) {
  for (const CodecOptions& options : every_codec()) {
    if (!options.error_feedback) continue;
    const auto codec = make_codec(options, type_of<T>);
    Random random(2);
    for (const std::size_t n : {1u, 40u, 700u, 9001u}) {  // the last one takes more than one piece
      ErrorFeedback feedback(n, type_of<T>, true);
      std::vector<double> given(n), sent(n), size(n);
      for (int round = 0; round < 12; ++round) {
        // One range, or two that meet at a block; of the latter now and then only the second.
        const std::size_t block = std::max<std::size_t>(codec->block(), 1);
        const std::size_t middle = n / 2 / block * block, first = round % 3 == 2 ? middle : 0;
        const std::size_t second = round % 3 ? middle : first;
        for (const auto& [begin, end] : {std::pair{first, second}, {second, n}}) {
          auto x = numbers<T>(end - begin, random);
          const auto before = x;
          ByteVector bytes;
          feedback.encode(*codec, begin, NumberSpan(x), random, bytes);
          const auto arrived = decoded<T>(*codec, bytes, x.size());
          ASSERT_TRUE(x.empty() || std::memcmp(x.data(), arrived.data(), x.size() * sizeof(T)) == 0)
              << describe(options);
          for (std::size_t i = 0; i < x.size(); ++i) {
            given[begin + i] += before[i];
            size[begin + i] += std::abs(double(before[i])) + std::abs(double(x[i]));
            sent[begin + i] += x[i];
          }
        }
        feedback.commit();
        const auto residual = feedback.residual().as<T>();
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_NEAR(sent[i] + residual[i], given[i], tolerance * (size[i] + std::abs(double(residual[i]))))
              << describe(options) << " n=" << n << " round " << round << " number " << i;
        }
      }
    }
  }
}

TEST(ErrorFeedback, TheSumsTelescopeFp32) { the_sums_telescope<float>(1e-5); }
TEST(ErrorFeedback, TheSumsTelescopeFp64) { the_sums_telescope<double>(1e-9); }

TEST(ErrorFeedback, ResidualsStayBounded) {
  const std::vector<CodecOptions> cases = {{.name = "int8"},
                                           {.name = "sign"},
                                           {.name = "qsgd", .bits = 2},
                                           {.name = "topk", .fraction = 0.1},
                                           {.name = "topk-sampled", .fraction = 0.1}};
  for (const CodecOptions& options : cases) {
    constexpr std::size_t n = 512;
    const auto codec = make_codec(options, DType::fp32);
    ErrorFeedback feedback(n, DType::fp32, true);
    Random random(3);
    ByteVector bytes;
    double largest = 0, early = 0;
    for (int round = 0; round < 600; ++round) {
      std::vector<float> x(n);
      for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
      largest = std::max(largest, square(x));
      feedback.encode(*codec, 0, x, random, bytes);
      feedback.commit();
      const auto residual = feedback.residual().as<float>();
      const double kept = square(std::vector<float>(residual.begin(), residual.end()));
      // Of random signs, residuals grow like a walk until what is sent holds them: far below a contraction's worst
      // case, 4 (1 - delta) / delta^2.
      ASSERT_LE(kept, 1000 * largest) << options.name << " round " << round;
      if (round < 300) early = std::max(early, kept);
      ASSERT_LE(kept, 2 * early) << options.name << " still grows in round " << round;
    }
  }
}

TEST(ErrorFeedback, SwitchedOffItOnlyRounds) {
  ErrorFeedback feedback(100, DType::fp32, false);
  const auto codec = make_codec({.name = "int8", .block = 8}, DType::fp32);
  Random random(4);
  const auto source = numbers<float>(100, random);
  ByteVector bytes;
  for (int round = 0; round < 3; ++round) {
    auto x = source;
    feedback.encode(*codec, 0, x, random, bytes);
    feedback.commit();
    EXPECT_EQ(bytes, encoded(*codec, source, random));
    EXPECT_EQ(x, decoded<float>(*codec, bytes, 100));
  }
  EXPECT_EQ(feedback.residual().count, 0u);
}

TEST(ErrorFeedback, AnOverflowIsSentAndNotKept) {
  for (const CodecOptions& options : every_codec()) {
    if (!options.error_feedback) continue;
    const auto codec = make_codec(options, DType::fp32);
    ErrorFeedback feedback(300, DType::fp32, true);
    Random random(5);
    ByteVector bytes;
    auto x = numbers<float>(300, random);
    feedback.encode(*codec, 0, x, random, bytes);
    feedback.commit();
    const float kept = feedback.residual().as<float>()[17];
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      x = numbers<float>(300, random);
      x[17] = bad;
      feedback.encode(*codec, 0, x, random, bytes);
      feedback.commit();
      EXPECT_FALSE(std::isfinite(x[17])) << describe(options);
      EXPECT_TRUE(numeric::all_finite(feedback.residual())) << describe(options);
      EXPECT_EQ(feedback.residual().as<float>()[17], kept) << describe(options);
    }
    x = numbers<float>(300, random);
    feedback.encode(*codec, 0, x, random, bytes);
    feedback.commit();
    EXPECT_TRUE(numeric::all_finite(NumberSpan(x))) << describe(options);
  }
}

TEST(ErrorFeedback, NumbersWithoutDataAreCountedOnly) {
  ErrorFeedback feedback(1000, DType::fp32, true);
  const auto codec = make_codec({.name = "int8"}, DType::fp32);
  Random random(6);
  ByteVector bytes(3);
  feedback.encode(*codec, 0, NumberSpan(nullptr, 1000, DType::fp32), random, bytes);
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(feedback.residual().data, nullptr) << "no memory for what nobody has";
}

TEST(ErrorFeedback, WhatLeavesTheWholeIsABug) {
  ErrorFeedback feedback(100, DType::fp32, true);
  const auto codec = make_codec({.name = "sign"}, DType::fp32);
  Random random(7);
  ByteVector bytes;
  std::vector<float> x(51);
  std::vector<double> wide(10);
  EXPECT_THROW(feedback.encode(*codec, 50, x, random, bytes), Error);
  EXPECT_THROW(feedback.encode(*codec, std::size_t(-1), x, random, bytes), Error);
  EXPECT_THROW(feedback.encode(*codec, 0, wide, random, bytes), Error);
}

TEST(ErrorFeedback, AnElementThatIsEncodedTwiceInAnAttemptIsABug) {
  ErrorFeedback feedback(100, DType::fp32, true);
  const auto codec = make_codec({.name = "sign"}, DType::fp32);
  Random random(7);
  ByteVector bytes;
  std::vector<float> x(50, 1.f), none;
  feedback.encode(*codec, 25, x, random, bytes);
  for (const std::size_t offset : {0, 25, 50})
    EXPECT_THROW(feedback.encode(*codec, offset, x, random, bytes), Error) << offset;
  for (const std::size_t offset : {0, 50, 100})
    EXPECT_NO_THROW(feedback.encode(*codec, offset, none, random, bytes)) << offset;
  EXPECT_NO_THROW(feedback.encode(*codec, 75, NumberSpan(x).slice(0, 25), random, bytes));
  feedback.begin();
  EXPECT_NO_THROW(feedback.encode(*codec, 0, x, random, bytes));
  feedback.commit();
  EXPECT_NO_THROW(feedback.encode(*codec, 0, x, random, bytes));
}

struct Copy : StateVisitor {
  std::vector<std::string> names;
  ByteVector values;
  bool writes = false;  ///< what was read before
  void span(std::string_view name, NumberSpan span) override {
    names.emplace_back(name);
    if (writes) {
      std::memcpy(span.data, values.data(), span.size_bytes());
    } else {
      values.assign(span.bytes().begin(), span.bytes().end());
    }
  }
  void number(std::string_view, std::int64_t&) override { ADD_FAILURE(); }
};

TEST(ErrorFeedback, GoesOnFromACheckpoint) {
  const auto codec = make_codec({.name = "sign", .block = 8}, DType::fp64);
  ErrorFeedback one(50, DType::fp64, true), other(50, DType::fp64, true), off(50, DType::fp64, false);
  Random random(8);
  ByteVector bytes, again;
  auto x = numbers<double>(50, random);
  one.encode(*codec, 0, x, random, bytes);
  one.commit();
  Copy copy;
  one.visit(copy, "residual.gradients");
  EXPECT_EQ(copy.names, std::vector<std::string>{"residual.gradients"});
  EXPECT_EQ(copy.values.size(), 400u);
  copy.writes = true;
  other.visit(copy, "residual.gradients");  // never used before
  auto y = x = numbers<double>(50, random);
  one.encode(*codec, 0, x, random, bytes);
  other.encode(*codec, 0, y, random, again);
  EXPECT_EQ(bytes, again);
  EXPECT_EQ(x, y);
  copy.names.clear();
  off.visit(copy, "residual.gradients");
  EXPECT_TRUE(copy.names.empty());
}

TEST(ErrorFeedback, WhatIsNotCommittedIsForgotten) {
  for (const CodecOptions& options : every_codec()) {
    if (!options.error_feedback) continue;
    const auto codec = make_codec(options, DType::fp32);
    const std::size_t block = std::max<std::size_t>(codec->block(), 1),
                      half = codec->block() > 0 ? 9001 / 2 / block * block : 0;
    ErrorFeedback once(9001, DType::fp32, true), twice(9001, DType::fp32, true);
    Random random(9);
    for (int round = 0; round < 6; ++round) {
      const auto given = numbers<float>(9001, random);
      const std::uint64_t draws = random.next();
      const auto encode = [&](ErrorFeedback& feedback, std::size_t begin, std::size_t end) {
        std::vector<float> part(given.begin() + static_cast<std::ptrdiff_t>(begin),
                                given.begin() + static_cast<std::ptrdiff_t>(end));
        ByteVector bytes;
        Random rounding(draws, begin);
        feedback.encode(*codec, begin, NumberSpan(part), rounding, bytes);
        return bytes;
      };
      twice.begin();  // an attempt that is dropped, in part or as a whole
      encode(twice, half, 9001);
      if (round % 2 == 1 && half > 0) encode(twice, 0, half);
      once.begin();
      twice.begin();
      if (half > 0 && round % 3 > 0) {
        EXPECT_EQ(encode(once, 0, half), encode(twice, 0, half)) << describe(options);
      }
      EXPECT_EQ(encode(once, half, 9001), encode(twice, half, 9001)) << describe(options) << " round " << round;
      once.commit();
      twice.commit();
      const Bytes residual = once.residual().bytes(), other = twice.residual().bytes();
      ASSERT_TRUE(std::equal(residual.begin(), residual.end(), other.begin(), other.end())) << describe(options);
    }
  }
}

}  // namespace
}  // namespace ripieno::codec
