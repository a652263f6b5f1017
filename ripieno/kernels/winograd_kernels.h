// The transforms of Winograd's minimal filtering for 3 x 3 convolutions of stride 1 (Lavin and Gray, "Fast algorithms
// for convolutional neural networks", CVPR 2016), for channels-last images (N x H x W x C). They are vectorised over
// channels, whose number is a multiple of 8, for the processor found at run time (Highway). Images are fp32, or bf16
// (as std::uint16_t, the upper half of an fp32); numbers at points and all arithmetic are fp32.
//
// A tile, m x m results of a convolution, depends on (m + 2) x (m + 2) pixels. With the paper's matrices A, B and G,
// and a tile's pixels d and a kernel g of one pair of channels, the results are A' [(G g G') * (B' d B)] A, where *
// multiplies elementwise: (m + 2)^2 multiplications instead of 9 m^2. Over all channels the product at each of these
// points is one matrix product. Every transform here takes tiles of images to points, or back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ripieno/kernels/image_kernels.h"

namespace ripieno::kernels {

/// What is transformed. The transform of a gradient is the transpose of the transform of what it is the gradient of.
enum class WinogradMap : std::uint8_t {
  input,   ///< tiles of (m + 2) x (m + 2) pixels: to points by B', the gradient back by B
  weight,  ///< 3 x 3 kernels, each an "image" with as many channels as the input: to points by G, the gradient back by
           ///< G'
  result,  ///< tiles of m x m pixels: from points by A', the gradient to points by A
};

/// m, the results of a tile along one axis.
enum class WinogradTile : std::uint8_t { two = 2, four = 4 };

/// The products of a tile for a pair of channels.
constexpr std::size_t points_of(WinogradTile m) {
  return (static_cast<std::size_t>(m) + 2) * (static_cast<std::size_t>(m) + 2);
}

/// The tiles of an image: rows x columns of them, `step` pixels apart, the first one's corner at (first, first). Pixels
/// outside the image read as 0 and are not written. The channels may be a part of those in memory; `pitch` is then the
/// distance of neighbouring pixels in elements.
struct Tiling {
  Images images;
  std::size_t rows = 1, columns = 1, step = 0;
  std::ptrdiff_t first = 0;
  std::size_t pitch = images.channels;
  std::size_t tiles() const { return images.count * rows * columns; }
  /// The same tiling for a part of the channels.
  Tiling some(std::size_t channels) const {
    Tiling found = *this;
    found.images.channels = channels;
    return found;
  }
};

/// Numbers at points: points_of(m) planes, `pitch` elements from one to the next, each tiles x channels.
struct WinogradPoints {
  float* data = nullptr;
  std::size_t pitch = 0;
};

/// Transforms images [begin, end): their input, weights, or results' gradients.
void to_points(WinogradPoints points, const float* images, const Tiling& tiling, WinogradTile m, WinogradMap map,
               std::size_t begin, std::size_t end);
void to_points(WinogradPoints points, const std::uint16_t* images, const Tiling& tiling, WinogradTile m,
               WinogradMap map, std::size_t begin, std::size_t end);

/// Transforms back to images [begin, end) and writes all their pixels: results, with `bias` (a number per channel;
/// null: none) added, or gradients of the input or the weights. Where tiles overlap, their numbers are added up and
/// rounded once.
void from_points(float* images, WinogradPoints points, const Tiling& tiling, WinogradTile m, WinogradMap map,
                 const float* bias, std::size_t begin, std::size_t end);
void from_points(std::uint16_t* images, WinogradPoints points, const Tiling& tiling, WinogradTile m, WinogradMap map,
                 const float* bias, std::size_t begin, std::size_t end);

}  // namespace ripieno::kernels
