// The transforms of Winograd's minimal filtering for 3 x 3 convolutions of stride 1 (Lavin and Gray, "Fast algorithms
// for convolutional neural networks", CVPR 2016), for images whose channels lie together (N x H x W x C), vectorised
// over channels, of which there are a multiple of 8, for the processor that is found at run time (Highway). Images are
// fp32, or bf16 (as std::uint16_t, the upper half of an fp32); numbers at points are fp32, and so is all that is
// computed.
//
// m x m results of a convolution, a tile, come from (m + 2) x (m + 2) pixels. With the paper's matrices A, B and G, and
// a tile's pixels d and a kernel g of one pair of channels, the results are A' [(G g G') * (B' d B)] A, where *
// multiplies number by number: (m + 2)^2 multiplications for 9 m^2. Over all channels the product at each of these
// points is one matrix product. Every transform here takes tiles of images to points, or back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ripieno/kernels/image_kernels.h"

namespace ripieno::kernels {

/// What is transformed. The gradients' transforms are the transposed ones of what they are gradients of.
enum class WinogradMap : std::uint8_t {
  input,   ///< tiles of (m + 2) x (m + 2) pixels: to points by B', the gradient back by B
  weight,  ///< 3 x 3 kernels, each an "image" of as many channels as the input has: to points by G, the gradient back
           ///< by G'
  result,  ///< tiles of m x m pixels: from points by A', the gradient to points by A
};

/// m, the results a tile has along an axis.
enum class WinogradTile : std::uint8_t { two = 2, four = 4 };

/// Products a tile has for a pair of channels.
constexpr std::size_t points_of(WinogradTile m) {
  return (static_cast<std::size_t>(m) + 2) * (static_cast<std::size_t>(m) + 2);
}

/// Where the tiles of an image lie: rows x columns of them, `step` pixels apart, the first one's corner at (first,
/// first). Pixels outside of the image read 0 and are not written. The channels may be some of those that the images
/// have in memory, which a pixel is `pitch` elements from the next then.
struct Tiling {
  Images images;
  std::size_t rows = 1, columns = 1, step = 0;
  std::ptrdiff_t first = 0;
  std::size_t pitch = images.channels;
  std::size_t tiles() const { return images.count * rows * columns; }
  /// That many channels of the images, from any on.
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

/// Transforms back to images [begin, end), all of whose pixels are written: results, to which `bias` (a number a
/// channel; null: none) is added, or the input's or the weights' gradients. Where tiles overlap their numbers are
/// summed, and the sum is rounded once.
void from_points(float* images, WinogradPoints points, const Tiling& tiling, WinogradTile m, WinogradMap map,
                 const float* bias, std::size_t begin, std::size_t end);
void from_points(std::uint16_t* images, WinogradPoints points, const Tiling& tiling, WinogradTile m, WinogradMap map,
                 const float* bias, std::size_t begin, std::size_t end);

}  // namespace ripieno::kernels
