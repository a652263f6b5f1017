#include "ripieno/data/augment.h"

#include <algorithm>

#include "ripieno/core/error.h"

namespace ripieno::data {
namespace {

void check(std::span<const std::uint8_t> pixels, ImageShape shape, std::span<const float> out) {
  if (shape.channels > 3) fail(ErrorKind::usage, "an image of ", shape.channels, " channels where at most 3 are known");
  require(pixels.size() == shape.pixels() && out.size() == shape.pixels(), "an image of ", shape.pixels(),
          " pixels from ", pixels.size(), " bytes into ", out.size(), " floats");
}

// Divisions rather than one multiply-add: the same bits as torchvision's, on every machine.
void normalise_run(const std::uint8_t* from, std::size_t n, float mean, float std, float* to) {
  for (std::size_t i = 0; i < n; ++i) to[i] = (static_cast<float>(from[i]) / 255.0f - mean) / std;
}

constexpr std::uint64_t for_first_flip = 0x666C6970;  // "flip"

/// The pixel at `i` when 0 .. n-1 is mirrored at 0 and n-1; `i` is at most n-1 outside.
int reflected(int i, int n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

}  // namespace

std::optional<bool> decided_flip(const AugmentOptions& options, std::uint64_t seed, std::uint32_t epoch,
                                 std::uint32_t sample) {
  if (!options.flip || !options.alternate) return std::nullopt;
  const bool first = Random(seed ^ for_first_flip, sample).next() >> 63;
  return first != (epoch % 2 == 1);
}

Normalisation normalisation_for(PixelScale scale, const Normalisation& standard) {
  if (scale == PixelScale::standard) return standard;
  const float unit = scale == PixelScale::none ? 1.0f / 255.0f : 1.0f;
  return {.mean = {0, 0, 0}, .std = {unit, unit, unit}};
}

void normalise(std::span<const std::uint8_t> pixels, ImageShape shape, const Normalisation& normalisation,
               std::span<float> out) {
  check(pixels, shape, out);
  const auto plane = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape.channels); ++c) {
    normalise_run(&pixels[c * plane], plane, normalisation.mean[c], normalisation.std[c], &out[c * plane]);
  }
}

void augment(std::span<const std::uint8_t> pixels, ImageShape shape, const AugmentOptions& options,
             const Normalisation& normalisation, Random& random, std::span<float> out, std::optional<bool> flipped_as) {
  check(pixels, shape, out);
  const int padding = options.crop_padding;
  if (padding < 0) fail(ErrorKind::usage, "crop_padding is ", padding, " where 0 or more is needed");
  const bool reflects = options.border == Border::reflected;
  if (reflects && padding >= std::min(shape.height, shape.width)) {
    fail(ErrorKind::usage, "crop_padding is ", padding, " where an image of ", shape.height, " x ", shape.width,
         " is reflected; give less than its smaller side");
  }
  const Normalisation used = normalisation_for(options.pixels, normalisation);

  // The window's corner relative to the image's: -padding .. padding.
  const auto offset = [&] {
    return static_cast<int>(random.below(2 * static_cast<std::uint64_t>(padding) + 1)) - padding;
  };
  const int top = padding > 0 ? offset() : 0;
  const int left = padding > 0 ? offset() : 0;
  const bool flipped = flipped_as ? *flipped_as : options.flip && random.next() >> 63;
  if (top == 0 && left == 0 && !flipped) return normalise(pixels, shape, used, out);

  // Columns [begin, end) of the window are inside the image.
  const int begin = std::clamp(-left, 0, shape.width);
  const int end = std::clamp(shape.width - left, begin, shape.width);
  for (int c = 0; c < shape.channels; ++c) {
    const float mean = used.mean[static_cast<std::size_t>(c)], std = used.std[static_cast<std::size_t>(c)];
    const std::uint8_t black = 0;
    float outside;
    normalise_run(&black, 1, mean, std, &outside);
    for (int y = 0; y < shape.height; ++y) {
      float* const row = out.data() + (static_cast<std::ptrdiff_t>(c) * shape.height + y) * shape.width;
      const int source = reflects ? reflected(y + top, shape.height) : y + top;
      if (source < 0 || source >= shape.height || begin == end) {
        std::fill_n(row, shape.width, outside);
        continue;
      }
      const std::ptrdiff_t from = (static_cast<std::ptrdiff_t>(c) * shape.height + source) * shape.width + left + begin;
      std::fill(row, row + begin, outside);
      normalise_run(pixels.data() + from, static_cast<std::size_t>(end - begin), mean, std, row + begin);
      std::fill(row + end, row + shape.width, outside);
      if (reflects) {
        const std::uint8_t* const line =
            pixels.data() + (static_cast<std::ptrdiff_t>(c) * shape.height + source) * shape.width;
        for (int x = 0; x < begin; ++x) normalise_run(line + reflected(x + left, shape.width), 1, mean, std, row + x);
        for (int x = end; x < shape.width; ++x)
          normalise_run(line + reflected(x + left, shape.width), 1, mean, std, row + x);
      }
      if (flipped) std::reverse(row, row + shape.width);
    }
  }
}

}  // namespace ripieno::data
