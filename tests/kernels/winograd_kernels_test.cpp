#include "ripieno/kernels/winograd_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ripieno/core/random.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::kernels {
namespace {

constexpr WinogradTile tile_sizes[] = {WinogradTile::two, WinogradTile::four};
constexpr WinogradMap maps[] = {WinogradMap::input, WinogradMap::weight, WinogradMap::result};

std::vector<float> drawn_uniformly(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> all(n);
  for (float& each : all) each = static_cast<float>(random.uniform()) - 0.5F;
  return all;
}

/// Tiles that cover the results of images, padded by 1, and more at the right and the bottom.
Tiling tiling_of(Images images, WinogradTile m, WinogradMap map) {
  const auto side = static_cast<std::size_t>(m);
  if (map == WinogradMap::weight) return {.images = {images.count, 3, 3, images.channels}};
  return {images, (images.height + side - 1) / side, (images.width + side - 1) / side, side,
          map == WinogradMap::input ? -1 : 0};
}

std::vector<float> at_points(const std::vector<float>& images, const Tiling& tiling, WinogradTile m, WinogradMap map) {
  const std::size_t pitch = tiling.tiles() * tiling.images.channels;
  std::vector<float> points(points_of(m) * pitch, NAN);
  to_points({points.data(), pitch}, images.data(), tiling, m, map, 0, tiling.images.count);
  return points;
}

std::vector<float> from(std::vector<float> points, const Tiling& tiling, WinogradTile m, WinogradMap map,
                        const float* bias = nullptr) {
  std::vector<float> images(tiling.images.elements(), NAN);
  from_points(images.data(), {points.data(), tiling.tiles() * tiling.images.channels}, tiling, m, map, bias, 0,
              tiling.images.count);
  return images;
}

/// Over all points, of one pair of channels: a product each, which is all that a convolution of one channel needs.
std::vector<float> times(const std::vector<float>& tiles, const std::vector<float>& kernel, std::size_t channels) {
  std::vector<float> found(tiles.size());
  const std::size_t points = kernel.size() / channels, plane = tiles.size() / points;
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = tiles[i] * kernel[i / plane * channels + i % channels];
  return found;
}

TEST(WinogradKernels, ResultsAreThoseOfTheConvolutionOfEachChannel) {
  for (const WinogradTile m : tile_sizes) {
    for (const Images shape : {Images{2, 8, 8, 16}, Images{1, 5, 7, 8}, Images{3, 1, 2, 24}, Images{2, 4, 3, 40}}) {
      const auto images = drawn_uniformly(shape.elements(), 1), kernel = drawn_uniformly(9 * shape.channels, 2),
                 bias = drawn_uniformly(shape.channels, 3);
      const Images one{1, 3, 3, shape.channels};
      const auto points =
          times(at_points(images, tiling_of(shape, m, WinogradMap::input), m, WinogradMap::input),
                at_points(kernel, tiling_of(one, m, WinogradMap::weight), m, WinogradMap::weight), shape.channels);
      const auto found = from(points, tiling_of(shape, m, WinogradMap::result), m, WinogradMap::result, bias.data());
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t c = i % shape.channels, x = i / shape.channels % shape.width,
                          y = i / shape.channels / shape.width % shape.height;
        const std::size_t image = i / (shape.elements() / shape.count) * (shape.elements() / shape.count);
        double expected = bias[c];
        for (std::size_t k = 0; k < 9; ++k) {
          const std::size_t row = y + k / 3 - 1, column = x + k % 3 - 1;
          if (row >= shape.height || column >= shape.width) continue;
          expected += static_cast<double>(images[image + (row * shape.width + column) * shape.channels + c]) *
                      kernel[k * shape.channels + c];
        }
        ASSERT_NEAR(found[i], expected, 1e-5)
            << "pixel " << y << ", " << x << ", channel " << c << " of " << shape.channels;
      }
    }
  }
}

// <to(images), points> = <images, from(points)>: what a gradient is, by linearity.
TEST(WinogradKernels, TransformsBackAreTheTransposedOnes) {
  for (const WinogradTile m : tile_sizes) {
    for (const WinogradMap map : maps) {
      for (const Images shape : {Images{2, 8, 8, 16}, Images{3, 5, 7, 24}, Images{1, 1, 1, 8}}) {
        const Tiling tiling = tiling_of(shape, m, map);
        const auto images = drawn_uniformly(tiling.images.elements(), 4), there = at_points(images, tiling, m, map);
        const auto points = drawn_uniformly(there.size(), 5), back = from(points, tiling, m, map);
        double first = 0, second = 0, scale = 0;
        for (std::size_t i = 0; i < points.size(); ++i) first += static_cast<double>(there[i]) * points[i];
        for (std::size_t i = 0; i < points.size(); ++i) scale += std::abs(static_cast<double>(there[i]) * points[i]);
        for (std::size_t i = 0; i < images.size(); ++i) second += static_cast<double>(images[i]) * back[i];
        EXPECT_NEAR(first, second, 1e-5 * scale) << "m " << static_cast<int>(m) << ", map " << static_cast<int>(map);
      }
    }
  }
}

TEST(WinogradKernels, ImagesOfBf16AreReadAsTheyAreAndWrittenRoundedOnce) {
  const auto numbers = [](std::vector<std::uint16_t>& half) {
    return NumberSpan(half.data(), half.size(), DType::bf16);
  };
  for (const WinogradTile m : tile_sizes) {
    for (const WinogradMap map : maps) {
      for (const Images shape : {Images{2, 8, 8, 16}, Images{3, 5, 7, 24}, Images{1, 1, 1, 8}}) {
        const Tiling tiling = tiling_of(shape, m, map);
        const std::size_t pitch = tiling.tiles() * tiling.images.channels;
        auto images = drawn_uniformly(tiling.images.elements(), 7), points = drawn_uniformly(points_of(m) * pitch, 8),
             bias = drawn_uniformly(tiling.images.channels, 9);
        std::vector<std::uint16_t> half(images.size());
        numeric::convert(numbers(half), images);
        numeric::convert(images, numbers(half));

        std::vector<float> there(points.size(), NAN);
        to_points({there.data(), pitch}, half.data(), tiling, m, map, 0, tiling.images.count);
        EXPECT_EQ(there, at_points(images, tiling, m, map));

        auto whole = from(points, tiling, m, map, bias.data());
        std::vector<std::uint16_t> back(images.size()), rounded(images.size());
        from_points(back.data(), {points.data(), pitch}, tiling, m, map, bias.data(), 0, tiling.images.count);
        numeric::convert(numbers(rounded), whole);
        EXPECT_EQ(back, rounded) << "m " << static_cast<int>(m) << ", map " << static_cast<int>(map);
      }
    }
  }
}

TEST(WinogradKernels, ImagesCanBeDoneInParts) {
  const Images shape{5, 6, 6, 16};
  const Tiling tiling = tiling_of(shape, WinogradTile::four, WinogradMap::input);
  const std::size_t pitch = tiling.tiles() * shape.channels;
  const auto images = drawn_uniformly(shape.elements(), 6),
             whole = at_points(images, tiling, WinogradTile::four, WinogradMap::input);
  std::vector<float> parts(whole.size(), NAN);
  to_points({parts.data(), pitch}, images.data(), tiling, WinogradTile::four, WinogradMap::input, 3, 5);
  to_points({parts.data(), pitch}, images.data(), tiling, WinogradTile::four, WinogradMap::input, 0, 3);
  EXPECT_EQ(parts, whole);
}

}  // namespace
}  // namespace ripieno::kernels
