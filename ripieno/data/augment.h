// Random crop, random horizontal flip and normalisation: bytes in, floats out, as torchvision does them on 8-bit
// images. Alternating flip: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv:2404.00498, 2024.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ripieno/core/random.h"
#include "ripieno/data/dataset.h"

namespace ripieno::data {

/// What a pixel's byte becomes: itself; 0 .. 1; or that with each channel's mean and deviation over the training set
/// taken out.
enum class PixelScale { none, unit, standard };

/// What lies around an image.
enum class Border { black, reflected };

struct AugmentOptions {
  int crop_padding = 0;  ///< pixels put around the image before an image-sized window is cut at random; 0: no crop
  bool flip = false;     ///< left and right swapped in half of all cases
  PixelScale pixels = PixelScale::standard;
  Border border =
      Border::black;       ///< of zero bytes, or the image mirrored at its outermost pixels (which are not repeated)
  bool alternate = false;  ///< flip: an image is swapped in every other epoch, from its first or its second on
};

/// Whether an image is swapped in an epoch, with options.flip: nothing where chance decides in each epoch anew.
std::optional<bool> decided_flip(const AugmentOptions& options, std::uint64_t seed, std::uint32_t epoch,
                                 std::uint32_t sample);

/// What normalise() needs for pixels of that scale; `standard` is the data set's.
Normalisation normalisation_for(PixelScale scale, const Normalisation& standard);

/// (x / 255 - mean) / std of every byte, in this order of operations, into floats of the same layout.
void normalise(std::span<const std::uint8_t> pixels, ImageShape shape, const Normalisation& normalisation,
               std::span<float> out);

/// Crops (padding bytes are normalised too, as black is), flips (by chance, or as `flipped` says), normalises. Planes
/// in and out: channel x row x column. Throws Error(usage) for a negative padding, one that is too large to be filled
/// by reflection (its limit is a pixel less than the image), or for normalising more than 3 channels.
void augment(std::span<const std::uint8_t> pixels, ImageShape shape, const AugmentOptions& options,
             const Normalisation& normalisation, Random& random, std::span<float> out,
             std::optional<bool> flipped = {});

}  // namespace ripieno::data
