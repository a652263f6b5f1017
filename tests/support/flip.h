// Harm to numbers: one wrong bit.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "ripieno/core/state.h"

namespace ripieno::testing {

/// As one bit of the network or of memory that is wrong.
inline void flip(double& number) {
  number = std::bit_cast<double>(std::bit_cast<std::uint64_t>(number) ^ (1ull << 30));
}

/// Flips a bit in a part of a strategy's state.
class FlipIn final : public StateVisitor {
 public:
  explicit FlipIn(std::string_view part) : part_(part) {}
  void span(std::string_view name, NumberSpan numbers) override {
    if (name != part_) return;
    flip(numbers.as<double>()[0]);
    found = true;
  }
  void number(std::string_view, std::int64_t&) override {}

  bool found = false;

 private:
  std::string_view part_;
};

}  // namespace ripieno::testing
