// Arithmetic of the generated data sets, with integers only: floating point may differ in its last bit between
// compilers (contraction) and libraries (sine), and one different bit makes another data set.
#pragma once

#include <cmath>
#include <cstdint>

#include "ripieno/core/random.h"

namespace ripieno::data {

/// Uniform over low .. high, both included.
inline int range(Random& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low) + 1));
}

/// floor(sqrt(x)) for 0 <= x < 2^52, for which an IEEE square root gives it exactly.
inline int whole_sqrt(std::int64_t x) { return static_cast<int>(std::sqrt(static_cast<double>(x))); }

/// Cosine and sine in units of 2^-14.
struct Rotation {
  std::int64_t cos = 1 << 14, sin = 0;
};

/// The rotation by the angle a with tan(a / 2) = t / 2^14, |t| < 2^14.
inline Rotation rotation(std::int64_t t) {
  const std::int64_t one = 1 << 28, divisor = one + t * t;
  return {((one - t * t) << 14) / divisor, (2 * t << 28) / divisor};
}

}  // namespace ripieno::data
