// Helpers of the codecs for numbers in memory: fp32 or fp64, their bits, and how decoded ones are stored.
#pragma once

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ripieno/core/span.h"

namespace ripieno::codec {

/// Calls `body` with the numbers as a span of float or of double.
template <class Body>
void with_numbers(NumberSpan numbers, Body body) {
  if (numbers.type == DType::fp64) return body(numbers.as<double>());
  body(numbers.as<float>());
}

template <class T>
using SignedBits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

/// The bits of |x|: >= 0, and ordered as the magnitudes are, with infinity above all numbers and NaN above infinity.
template <class T>
constexpr SignedBits<T> magnitude(T x) {
  return std::bit_cast<SignedBits<T>>(x) & std::numeric_limits<SignedBits<T>>::max();
}

/// y = value, or y += value.
template <bool adds, class T>
inline void put(T& y, T value) {
  if constexpr (adds) {
    y += value;
  } else {
    y = value;
  }
}

static_assert(std::endian::native == std::endian::little, "codecs write numbers as they lie in memory");

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace ripieno::codec
