// "shapes": a generated stand-in for CIFAR-10. One of ten shapes (disc, square, triangle, star, cross, ring, crescent,
// heart, stripes, checks) of random colour, size, place and rotation on a background of two colours, often partly
// hidden by a bar, under noise. Colour does not depend on the class.
#pragma once

#include <cstdint>
#include <memory>

#include "ripieno/data/dataset.h"

namespace ripieno::data {

inline constexpr ImageShape shapes_shape = {3, 32, 32};
inline constexpr std::uint32_t shapes_train = 10000, shapes_test = 2000;

/// The options may ask for any number of samples.
std::unique_ptr<Dataset> open_shapes(Split split, const DataOptions& options);

}  // namespace ripieno::data
