// Random crop, random horizontal flip and normalisation: bytes in, floats out, as torchvision does them on 8-bit
// images.
#pragma once

#include <cstdint>
#include <span>

#include "ripieno/core/random.h"
#include "ripieno/data/dataset.h"

namespace ripieno {

struct AugmentOptions {
  int crop_padding = 0;   ///< zero bytes put around the image before an image-sized window is cut at random; 0: no crop
  bool flip = false;      ///< left and right swapped in half of all cases
  bool normalise = true;  ///< false: pixels scaled to 0 .. 1 only
};

/// (x / 255 - mean) / std of every byte, in this order of operations, into floats of the same layout.
void normalise(std::span<const std::uint8_t> pixels, ImageShape shape, const Normalisation& normalisation,
               std::span<float> out);

/// Crops (padding bytes are normalised too, as black is), flips, normalises. Planes in and out: channel x row x column.
/// Throws Error(usage) for a negative padding, or for normalising more than 3 channels.
void augment(std::span<const std::uint8_t> pixels, ImageShape shape, const AugmentOptions& options,
             const Normalisation& normalisation, Random& random, std::span<float> out);

}  // namespace ripieno
