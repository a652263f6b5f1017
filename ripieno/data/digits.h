// "digits": a generated stand-in for MNIST. Each digit is a few pen strokes with jittered corners, rounded, then
// scaled, slanted, rotated and shifted, drawn with a pen of random width and softness beside stray strokes, under
// noise.
#pragma once

#include <cstdint>
#include <memory>

#include "ripieno/data/dataset.h"

namespace ripieno::data {

inline constexpr ImageShape digits_shape = {1, 28, 28};
inline constexpr std::uint32_t digits_train = 12000, digits_test = 2000;

/// The options may ask for any number of samples.
std::unique_ptr<Dataset> open_digits(Split split, const DataOptions& options);

}  // namespace ripieno::data
