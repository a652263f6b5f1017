// A flat buffer of numbers that owns its memory, for a strategy's own state.
#pragma once

#include <memory>

#include "ripieno/core/memory.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::numeric {

class Numbers {
 public:
  /// `count` zeros, in memory from `memory`.
  Numbers(std::size_t count, DType type, const Memory& memory = own_memory)
      : memory_(memory(count * size_of(type))), count_(count), type_(type) {}
  Numbers(Numbers&&) = default;
  Numbers& operator=(Numbers&&) = default;
  NumberSpan span() { return NumberSpan(count_ > 0 ? memory_.get() : nullptr, count_, type_); }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t count_;
  DType type_;
};

/// Memory for numbers that go with these: none if they have no data.
inline Memory memory_like(NumberSpan numbers, const Memory& memory = own_memory) {
  return numbers.data ? memory : Memory(no_memory);
}

inline std::unique_ptr<Numbers> copy_of(NumberSpan from, const Memory& memory = own_memory) {
  auto numbers = std::make_unique<Numbers>(from.count, from.type, memory_like(from, memory));
  convert(numbers->span(), from);
  return numbers;
}

}  // namespace ripieno::numeric
