// Plain views of memory: bytes, and numbers of a stated type on a stated device. No tensors: everything
// below train/ works on these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno {

enum class DType : std::uint8_t { fp32, fp64, fp16, bf16, int64, int32, uint8 };
inline constexpr int dtypes = 7;

/// Bytes per element.
constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::fp64:
    case DType::int64:
      return 8;
    case DType::fp32:
    case DType::int32:
      return 4;
    case DType::fp16:
    case DType::bf16:
      return 2;
    case DType::uint8:
      return 1;
  }
  return 0;
}

/// "fp32", "fp64", "fp16", "bf16", "int64", "int32", "uint8".
const char* name(DType type);

constexpr bool is_float(DType type) { return type <= DType::bf16; }

/// The DType of a C++ arithmetic type.
template <class T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, float>) return DType::fp32;
  if constexpr (std::is_same_v<T, double>) return DType::fp64;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::int64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::int32;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::uint8;
}();

/// The device that holds memory. CPU today; a CUDA build adds its kind.
struct Device {
  enum class Kind : std::uint8_t { cpu } kind = Kind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// `count` numbers of one type, not owned. `data` may be null in a simulation that counts data without moving it.
struct NumberSpan {
  void* data = nullptr;
  std::size_t count = 0;
  DType type = DType::fp32;
  Device device = {};

  NumberSpan() = default;
  NumberSpan(void* d, std::size_t n, DType t) : data(d), count(n), type(t) {}
  template <class T>
  NumberSpan(std::span<T> s) : data(s.data()), count(s.size()), type(dtype_of<T>) {}
  template <class T>
  NumberSpan(std::vector<T>& v) : NumberSpan(std::span<T>(v)) {}

  std::size_t size_bytes() const { return count * size_of(type); }
  Bytes bytes() const { return {static_cast<std::byte*>(data), size_bytes()}; }

  /// Elements [begin, end).
  NumberSpan slice(std::size_t begin, std::size_t end) const {
    require(begin <= end && end <= count, "slice [", begin, ", ", end, ") of a span of ", count, " elements");
    NumberSpan part = *this;
    part.data = data ? static_cast<std::byte*>(data) + begin * size_of(type) : nullptr;
    part.count = end - begin;
    return part;
  }

  /// The numbers as type T, which must match `type`.
  template <class T>
  std::span<T> as() const {
    require(type == dtype_of<std::remove_const_t<T>>, "a span of ", name(type), " read as another type");
    return {static_cast<T*>(data), count};
  }
};

}  // namespace ripieno
