// What every codec promises, whatever it is.
#include "ripieno/codec/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

#include "ripieno/codec/topk.h"
#include "ripieno/codec/wire.h"
#include "ripieno/numeric/elementwise.h"
#include "tests/codec/cases.h"

namespace ripieno::codec {
namespace {

template <class Body>
std::string error_of(ErrorKind kind, Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Codec, TheTableNamesEachOnce) {
  std::vector<std::string> names;
  for (const CodecInfo& info : codecs()) {
    names.emplace_back(info.name);
    EXPECT_EQ(&find_codec(info.name), &info);
    EXPECT_FALSE(info.title.empty());
    EXPECT_FALSE(info.bytes.empty());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"auto", "fp32", "fp16", "bf16", "int8", "qsgd", "sign", "topk",
                                             "topk-sampled", "powersgd"}));
  for (const WireFormat& format : wire_formats()) EXPECT_EQ(find_codec(format.name).kind, CodecKind::wire);
}

TEST(Codec, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const std::string error = error_of(ErrorKind::usage, [] { find_codec("zip"); });
  EXPECT_NE(error.find("\"zip\""), std::string::npos) << error;
  for (const CodecInfo& info : codecs()) EXPECT_NE(error.find(info.name), std::string::npos) << error;
  error_of(ErrorKind::usage, [] { check_codec({.name = "zip"}); });
  error_of(ErrorKind::usage, [] { make_codec({.name = "zip"}, DType::fp32); });
}

TEST(Codec, OptionsOutOfRangeAreRefusedByNameAndValue) {
  const auto refused = [](CodecOptions options, const std::string& what) {
    for (const CodecInfo& info : codecs()) {
      options.name = info.name;
      const std::string error = error_of(ErrorKind::usage, [&] { check_codec(options); });
      EXPECT_NE(error.find(what), std::string::npos) << error;
      error_of(ErrorKind::usage, [&] { make_codec(options, DType::fp32); });
    }
  };
  for (const std::size_t block : {0, 4, 12, 255, (1 << 20) + 8}) refused({.block = block}, text("block is ", block));
  for (const int bits : {-1, 0, 1, 9}) refused({.bits = bits}, text("bits is ", bits));
  for (const double fraction : {0.0, -0.5, 1.5}) refused({.fraction = fraction}, text("fraction is ", fraction));
  refused({.fraction = NAN}, "fraction is ");
  for (const int rank : {0, 65}) refused({.rank = rank}, text("rank is ", rank));
  for (const CodecInfo& info : codecs()) {
    for (const std::size_t block : {8, 1 << 20}) {
      check_codec({.name = std::string(info.name), .block = block, .fraction = 1});
    }
  }
}

TEST(Codec, PowerSgdHasNone) {
  check_codec({.name = "powersgd"});
  error_of(ErrorKind::internal, [] { make_codec({.name = "powersgd"}, DType::fp32); });
}

/// The closed forms of the table, written out anew.
std::optional<std::size_t> expected_bytes(const CodecOptions& o, std::size_t n, std::size_t native) {
  const std::size_t scales = 4 * ((n + o.block - 1) / o.block);
  if (o.name == "auto") return n * native;
  if (o.name == "fp32") return n * 4;
  if (o.name == "fp16" || o.name == "bf16") return n * 2;
  if (o.name == "int8") return n + scales;
  if (o.name == "sign") return (n + 7) / 8 + scales;
  if (o.name == "qsgd") return (n * static_cast<std::size_t>(o.bits) + 7) / 8 + scales;
  if (o.name == "topk") return 8 * top_count(o.fraction, n);
  return std::nullopt;
}

template <class T>
void sizes_are_the_closed_form() {
  for (const CodecOptions& options : every_codec()) {
    const auto codec = make_codec(options, type_of<T>);
    Random random(3);
    for (std::size_t n = 0; n <= 2 * options.block + 3; ++n) {
      const auto x = numbers<T>(n, random);
      const ByteVector bytes = encoded(*codec, x, random);
      ASSERT_EQ(codec->bytes(n), expected_bytes(options, n, sizeof(T))) << describe(options) << " n=" << n;
      if (const auto size = codec->bytes(n)) {
        ASSERT_EQ(bytes.size(), *size) << describe(options) << " n=" << n;
      } else {
        ASSERT_EQ(bytes.size() % 8, 0u);
        ASSERT_LE(bytes.size(), 16 * top_count(options.fraction, n)) << describe(options) << " n=" << n;
        ASSERT_GE(bytes.size(), n ? 8u : 0u) << describe(options) << " n=" << n;
      }
    }
  }
}

TEST(Codec, SizesAreTheClosedFormFp32) { sizes_are_the_closed_form<float>(); }
TEST(Codec, SizesAreTheClosedFormFp64) { sizes_are_the_closed_form<double>(); }

TEST(Codec, BlocksJoinedAreTheWhole) {
  for (const CodecOptions& options : every_codec()) {
    const auto codec = make_codec(options, DType::fp32);
    const std::size_t block = codec->block();
    EXPECT_EQ(block == 0, find_codec(options.name).kind == CodecKind::gathered);
    if (block == 0) continue;
    Random source(4);
    auto x = numbers<float>(7 * block + 3, source);
    Random one(9), other(9);
    const auto whole = encoded(*codec, x, one);
    ByteVector joined, part;
    const std::pair<std::size_t, std::size_t> ranges[] = {{0, 2}, {2, 3}, {3, 7}};  // blocks, and the last one's rest
    for (const auto& [first, last] : ranges) {
      const std::size_t begin = first * block, end = last == 7 ? x.size() : last * block;
      codec->encode(NumberSpan(x).slice(begin, end), other, part);
      EXPECT_EQ(joined.size(), *codec->bytes(begin));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, whole) << describe(options);
    EXPECT_EQ(one.next(), other.next()) << describe(options) << ": as many draws";
  }
}

template <class T>
void adding_is_decoding_and_adding() {
  for (const CodecOptions& options : every_codec()) {
    const auto codec = make_codec(options, type_of<T>);
    Random random(5);
    for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 300u, 1000u}) {
      const auto bytes = encoded(*codec, numbers<T>(n, random), random);
      const auto y = decoded<T>(*codec, bytes, n);
      auto sum = numbers<T>(n, random), expected = sum;
      codec->add(bytes, NumberSpan(sum));
      for (std::size_t i = 0; i < n; ++i) expected[i] += y[i];
      ASSERT_EQ(sum, expected) << describe(options) << " n=" << n;
    }
  }
}

TEST(Codec, AddingIsDecodingAndAddingFp32) { adding_is_decoding_and_adding<float>(); }
TEST(Codec, AddingIsDecodingAndAddingFp64) { adding_is_decoding_and_adding<double>(); }

TEST(Codec, SameNumbersAndDrawsGiveTheSameBytes) {
  for (const CodecOptions& options : every_codec()) {
    Random source(6), one(7), other(7);
    const auto x = numbers<float>(5000, source);
    EXPECT_EQ(encoded(*make_codec(options, DType::fp32), x, one), encoded(*make_codec(options, DType::fp32), x, other))
        << describe(options);
  }
}

TEST(Codec, LosslessOnesGiveBackTheBits) {
  for (const CodecInfo& info : codecs()) {
    if (!info.lossless) continue;
    Random random(8);
    std::vector<float> x;
    for (int i = 0; i < 1000; ++i) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.next() >> 32)));
    const auto y = round_trip(*make_codec({.name = std::string(info.name)}, DType::fp32), x, random);
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * 4), 0) << info.name;
  }
}

template <class T>
void what_is_not_finite_stays_so() {
  using limits = std::numeric_limits<T>;
  for (const CodecOptions& options : every_codec()) {
    const auto codec = make_codec(options, type_of<T>);
    for (const std::size_t n : {1u, 8u, 13u, 30u}) {
      for (std::size_t bad = 0; bad < n; ++bad) {
        for (const T value : {limits::infinity(), -limits::infinity(), limits::quiet_NaN()}) {
          Random random(bad);
          auto x = numbers<T>(n, random);
          x[bad] = value;
          const auto y = round_trip(*codec, x, random);
          ASSERT_FALSE(std::isfinite(y[bad])) << describe(options) << " " << value << " at " << bad << " of " << n;
        }
      }
    }
    Random random(1);  // many of them
    std::vector<T> x(3000, limits::infinity());
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = i % 2 ? limits::quiet_NaN() : T(1);
    auto y = round_trip(*codec, x, random);
    EXPECT_FALSE(numeric::all_finite(NumberSpan(y))) << describe(options);
  }
}

TEST(Codec, WhatIsNotFiniteStaysSoFp32) { what_is_not_finite_stays_so<float>(); }
TEST(Codec, WhatIsNotFiniteStaysSoFp64) { what_is_not_finite_stays_so<double>(); }

TEST(Codec, TheLargestAndSmallestNumbersDoNoHarm) {
  for (const CodecOptions& options : every_codec()) {
    const auto codec = make_codec(options, DType::fp32);
    Random random(2);
    using limits = std::numeric_limits<float>;
    const auto zeros = round_trip(*codec, std::vector<float>(40, 0.0f), random);
    for (const float y : zeros) EXPECT_EQ(y, 0) << describe(options);
    const auto tiny = round_trip(*codec, std::vector<float>(40, limits::denorm_min()), random);
    for (const float y : tiny) EXPECT_LE(std::abs(y), limits::min()) << describe(options);
    const auto large = round_trip(*codec, std::vector<float>(40, -limits::max()), random);
    for (const float y : large) EXPECT_TRUE(!std::isfinite(y) || y <= 0) << describe(options);
    if (options.name == "int8" || options.name == "sign" || options.name == "topk") {
      EXPECT_TRUE(std::isfinite(large[0])) << describe(options);
    }
  }
}

TEST(Codec, BytesOfAnotherLengthAreRefusedWithBothLengths) {
  for (const CodecOptions& options : every_codec()) {
    const auto codec = make_codec(options, DType::fp32);
    Random random(11);
    std::vector<float> y(100, 5.0f);
    auto bytes = encoded(*codec, numbers<float>(100, random), random);
    const std::size_t right = bytes.size();
    for (const std::size_t wrong : {std::size_t{0}, right - 1, right + 1, right + 8 * 200}) {
      bytes.resize(wrong);
      for (const bool adds : {false, true}) {
        const std::string error =
            error_of(ErrorKind::mismatch, [&] { adds ? codec->add(bytes, y) : codec->decode(bytes, y); });
        EXPECT_NE(error.find(text(", ", wrong, " came")), std::string::npos) << error;
        if (codec->bytes(100)) {
          EXPECT_NE(error.find(text(right, " bytes")), std::string::npos) << error;
        }
      }
    }
    EXPECT_EQ(y, std::vector<float>(100, 5.0f)) << describe(options);
  }
}

template <class T>
void any_bytes_decode_or_are_refused() {
  int filled = 0, refused = 0;
  for (const CodecOptions& options : every_codec()) {
    const auto codec = make_codec(options, type_of<T>);
    Random random(12);
    for (int round = 0; round < 300; ++round) {
      const std::size_t n = random.below(3 * options.block / 2);
      auto bytes = encoded(*codec, numbers<T>(n, random), random);
      if (random.below(3) == 0) bytes.resize(random.below(bytes.size() + 20));
      if (random.below(2) == 0) {
        for (auto& byte : bytes) byte = static_cast<std::byte>(random.next() >> 56);
      } else if (!bytes.empty()) {
        for (int flips = 0; flips < 3; ++flips) {
          bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
        }
      }
      bytes.shrink_to_fit();  // so that a sanitizer sees each byte too many
      std::vector<T> one(n, T(1)), other(n, T(2)), sum(n);
      try {
        codec->decode(bytes, NumberSpan(one));
        codec->decode(bytes, NumberSpan(other));
        codec->add(bytes, NumberSpan(sum));
        ++filled;
        const bool same = n == 0 || std::memcmp(one.data(), other.data(), n * sizeof(T)) == 0;
        ASSERT_TRUE(same) << describe(options) << " n=" << n << ": not all numbers were filled";
      } catch (const Error& error) {
        ++refused;
        ASSERT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
        ASSERT_EQ(one, std::vector<T>(n, T(1))) << describe(options) << ": refused but written";
      }
    }
  }
  EXPECT_GT(filled, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Codec, AnyBytesDecodeOrAreRefusedFp32) { any_bytes_decode_or_are_refused<float>(); }
TEST(Codec, AnyBytesDecodeOrAreRefusedFp64) { any_bytes_decode_or_are_refused<double>(); }

}  // namespace
}  // namespace ripieno::codec
