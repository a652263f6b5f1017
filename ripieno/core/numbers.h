// Numbers that are owned: a flat buffer of a stated type, for what a strategy keeps besides its learner's.
#pragma once

#include <memory>
#include <vector>

#include "ripieno/core/kernels.h"

namespace ripieno {

class Numbers {
 public:
  /// Zeros.
  Numbers(std::size_t count, DType type) : bytes_(count * size_of(type)), count_(count), type_(type) {}
  FloatSpan span() { return FloatSpan(count_ > 0 ? bytes_.data() : nullptr, count_, type_); }

 private:
  std::vector<std::byte> bytes_;
  std::size_t count_;
  DType type_;
};

inline std::unique_ptr<Numbers> copy_of(FloatSpan from) {
  auto numbers = std::make_unique<Numbers>(from.count, from.type);
  convert(numbers->span(), from);
  return numbers;
}

}  // namespace ripieno
