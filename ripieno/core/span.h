// Plain views of memory: bytes, and floating-point numbers of a stated type on a stated device. No tensors: everything
// below train/ works on these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno {

enum class DType : std::uint8_t { fp32, fp64, fp16, bf16 };

/// Bytes an element.
constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::fp64: return 8;
    case DType::fp32: return 4;
    case DType::fp16:
    case DType::bf16: return 2;
  }
  return 0;
}

/// "fp32", "fp64", "fp16", "bf16".
const char* name(DType type);

/// Where memory lies. CPU today; a CUDA build adds its kind.
struct Device {
  enum class Kind : std::uint8_t { cpu } kind = Kind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// `count` numbers of one type, not owned. `data` may be null for a simulation that moves no data but counts it.
struct NumberSpan {
  void* data = nullptr;
  std::size_t count = 0;
  DType type = DType::fp32;
  Device device = {};

  NumberSpan() = default;
  NumberSpan(void* d, std::size_t n, DType t) : data(d), count(n), type(t) {}
  NumberSpan(std::span<float> s) : data(s.data()), count(s.size()), type(DType::fp32) {}
  NumberSpan(std::span<double> s) : data(s.data()), count(s.size()), type(DType::fp64) {}
  NumberSpan(std::vector<float>& v) : NumberSpan(std::span<float>(v)) {}
  NumberSpan(std::vector<double>& v) : NumberSpan(std::span<double>(v)) {}

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

  /// The same memory as numbers of type T (float or double), which must be its type.
  template <class T>
  std::span<T> as() const {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    require(type == (sizeof(T) == 4 ? DType::fp32 : DType::fp64), "a span of ", name(type), " read as another type");
    return {static_cast<T*>(data), count};
  }
};

}  // namespace ripieno
