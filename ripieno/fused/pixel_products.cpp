#include "ripieno/fused/pixel_products.h"

#include <algorithm>

#include "ripieno/fused/memory_format.h"

namespace ripieno::fused {
namespace {

using torch::Tensor;

constexpr std::int64_t largest = 4;  // pixels per side; larger images have too few kernel positions outside

/// Along one axis, the kernel position `place` connects pixels [begin, end) of the result with the image's pixels
/// `offset` further on.
struct PixelRun {
  std::int64_t begin, end, offset;
  PixelRun(std::int64_t place, std::int64_t padding, std::int64_t in, std::int64_t out)
      : begin(std::max<std::int64_t>(0, padding - place)),
        end(std::min(out, in + padding - place)),
        offset(place - padding) {}
  std::int64_t size() const { return end - begin; }
};

/// `count` neighbouring pixels of all images, or positions of all filters, as a matrix with a row for each.
Tensor columns(const Tensor& images, std::int64_t first, std::int64_t count) {
  const std::int64_t channels = images.size(1), pixels = images.size(2) * images.size(3);
  return images.as_strided({images.size(0), count * channels}, {pixels * channels, 1},
                           images.storage_offset() + first * channels);
}

/// H x W x N x C, so that a pixel of all images is one matrix.
Tensor by_pixel(const Tensor& images) { return images.permute({2, 3, 0, 1}).contiguous(); }

/// Rows of the given pixels, one an image.
Tensor rows(const Tensor& pixels, const PixelRun& y, const PixelRun& x, bool shifted) {
  const std::int64_t top = y.begin + (shifted ? y.offset : 0), left = x.begin + (shifted ? x.offset : 0);
  return pixels.narrow(0, top, y.size()).narrow(1, left, x.size()).reshape({-1, pixels.size(3)});
}

}  // namespace

std::optional<PixelProducts> PixelProducts::of(torch::IntArrayRef input, torch::IntArrayRef weight, std::int64_t stride,
                                               std::int64_t padding) {
  const std::int64_t kernel = weight[2];
  PixelProducts made;
  made.padding_ = padding;
  made.input_ = input.vec();
  made.weight_ = weight.vec();
  made.result_ = {input[0], weight[0], input[2] + 2 * padding - kernel + 1, input[3] + 2 * padding - kernel + 1};
  const std::int64_t height = made.result_[2], width = made.result_[3];
  if (stride != 1 || kernel < 2 || weight[3] != kernel || height < 1 || width < 1 || height > largest ||
      width > largest)
    return std::nullopt;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t begin = std::max<std::int64_t>(0, padding - x), end = std::min(kernel, input[3] + padding - x);
      for (std::int64_t i = std::max<std::int64_t>(0, padding - y);
           i < std::min(kernel, input[2] + padding - y) && begin < end; ++i) {
        made.meetings_.push_back(
            {y * width + x, (y + i - padding) * input[3] + x + begin - padding, i * kernel + begin, end - begin});
      }
    }
  }
  return made;
}

double PixelProducts::operations() const {
  std::int64_t pairs = 0;
  for (const Meeting& each : meetings_) pairs += each.count;
  return static_cast<double>(pairs * input_[0]) * static_cast<double>(weight_[0] * weight_[1]);
}

Tensor PixelProducts::forward(const Tensor& input, const Tensor& weight, const Tensor& bias) const {
  const Tensor in = input.contiguous(channels_last), used = weight.contiguous(channels_last);
  Tensor result = at::empty(result_, in.options().memory_format(channels_last));
  bias.defined() ? result.copy_(bias.view({1, -1, 1, 1})) : result.zero_();
  for (const Meeting& each : meetings_) {
    columns(result, each.out, 1).addmm_(columns(in, each.in, each.count), columns(used, each.place, each.count).t());
  }
  return result;
}

Tensor PixelProducts::input_gradient(const Tensor& gradient, const Tensor& weight) const {
  const Tensor by_result = gradient.contiguous(channels_last), used = weight.contiguous(channels_last);
  Tensor found = at::empty(input_, by_result.options().memory_format(channels_last)).zero_();
  for (const Meeting& each : meetings_) {
    columns(found, each.in, each.count).addmm_(columns(by_result, each.out, 1), columns(used, each.place, each.count));
  }
  return found;
}

// One product for each kernel position, which sums over images and pixels: the longest possible sums.
void PixelProducts::weight_gradient(const Tensor& gradient, const Tensor& input, const Tensor& to) const {
  const Tensor by_result = by_pixel(gradient), in = by_pixel(input);
  for (std::int64_t i = 0; i < weight_[2]; ++i) {
    for (std::int64_t j = 0; j < weight_[3]; ++j) {
      const PixelRun y(i, padding_, input_[2], result_[2]), x(j, padding_, input_[3], result_[3]);
      Tensor place = to.select(3, j).select(2, i);
      if (y.size() <= 0 || x.size() <= 0) {
        place.zero_();
      } else if (const Tensor g = rows(by_result, y, x, false), v = rows(in, y, x, true);
                 place.scalar_type() == v.scalar_type()) {
        at::mm_out(place, g.t(), v);
      } else {
        place.copy_(at::mm(g.t(), v));
      }
    }
  }
}

}  // namespace ripieno::fused
