// What the codecs' tests share: every codec with telling options, and numbers to encode.
#pragma once

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "ripieno/codec/codec.h"

namespace ripieno::codec {

inline std::string describe(const CodecOptions& o) {
  return text(o.name, " block=", o.block, " bits=", o.bits, " fraction=", o.fraction, " feedback=", o.error_feedback);
}

/// Every codec that can be made, with small and large options.
inline std::vector<CodecOptions> every_codec() {
  std::vector<CodecOptions> all;
  for (const CodecInfo& info : codecs()) {
    if (info.kind == CodecKind::low_rank) continue;
    CodecOptions options{.name = std::string(info.name)};
    if (info.kind == CodecKind::wire) all.push_back(options);
    for (const bool feedback : {true, false}) {
      options.error_feedback = feedback;
      if (info.name == "qsgd") {
        for (const int bits : {2, 3, 4, 5, 6, 7, 8}) {
          options.bits = bits;
          for (const std::size_t block : {8, 24, 264}) all.push_back((options.block = block, options));
        }
      } else if (info.kind == CodecKind::block && feedback) {
        for (const std::size_t block : {8, 24, 256}) all.push_back((options.block = block, options));
      } else if (info.kind == CodecKind::gathered && feedback) {
        for (const double fraction : {0.01, 0.3, 1.0}) all.push_back((options.fraction = fraction, options));
      }
    }
  }
  return all;
}

template <class T>
constexpr DType type_of = sizeof(T) == 4 ? DType::fp32 : DType::fp64;

/// Numbers of many magnitudes and both signs, some of them 0.
template <class T>
std::vector<T> numbers(std::size_t n, Random& random) {
  std::vector<T> x(n);
  for (T& value : x) {
    value = static_cast<T>(std::ldexp(random.uniform(-1, 1), static_cast<int>(random.below(12)) - 8));
    if (random.below(16) == 0) value = 0;
  }
  return x;
}

template <class T>
ByteVector encoded(const Codec& codec, std::vector<T> x, Random& random) {
  ByteVector bytes;
  codec.encode(NumberSpan(x), random, bytes);
  return bytes;
}

template <class T>
std::vector<T> decoded(const Codec& codec, const ByteVector& bytes, std::size_t n) {
  std::vector<T> y(n, T(123.25));  // whatever was there must not matter
  codec.decode(bytes, NumberSpan(y));
  return y;
}

template <class T>
std::vector<T> round_trip(const Codec& codec, const std::vector<T>& x, Random& random) {
  return decoded<T>(codec, encoded(codec, x, random), x.size());
}

/// sum (x_i - y_i)^2; of x alone where y is left out.
template <class T>
double square(const std::vector<T>& x, const std::vector<T>& y = {}) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = double(x[i]) - (y.empty() ? 0 : double(y[i]));
    sum += difference * difference;
  }
  return sum;
}

inline ByteVector bytes_of(std::initializer_list<int> values) {
  ByteVector bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

}  // namespace ripieno::codec
