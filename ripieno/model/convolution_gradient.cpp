#include "ripieno/model/convolution_gradient.h"

#include <algorithm>
#include <array>

namespace ripieno {
namespace {

using torch::Tensor;

constexpr std::int64_t small = 4;  // pixels: up to here, measured, matrix products win

/// Pixels [begin, end) of a result, along one axis, for which the kernel's place `offset` (from the pixel) is in the image.
struct Run {
  std::int64_t begin, end, offset;
  Run(std::int64_t place, std::int64_t padding, std::int64_t in, std::int64_t out)
      : begin(std::max<std::int64_t>(0, padding - place)), end(std::min(out, in + padding - place)), offset(place - padding) {}
  std::int64_t size() const { return end - begin; }
};

/// H x W x N x C, so that a pixel of all images is one matrix.
Tensor by_pixel(const Tensor& images) { return images.permute({2, 3, 0, 1}).contiguous(); }

/// Rows of the given pixels, one an image.
Tensor rows(const Tensor& pixels, const Run& y, const Run& x, bool shifted) {
  const std::int64_t top = y.begin + (shifted ? y.offset : 0), left = x.begin + (shifted ? x.offset : 0);
  return pixels.narrow(0, top, y.size()).narrow(1, left, x.size()).reshape({-1, pixels.size(3)});
}

void small_weight_gradient(const ConvolutionPass& pass, Tensor& weight_gradient) {
  const Tensor gradient = by_pixel(pass.gradient), input = by_pixel(pass.input);
  for (std::int64_t i = 0; i < pass.weight.size(2); ++i) {
    for (std::int64_t j = 0; j < pass.weight.size(3); ++j) {
      const Run y(i, pass.padding, input.size(0), gradient.size(0)), x(j, pass.padding, input.size(1), gradient.size(1));
      Tensor place = weight_gradient.select(3, j).select(2, i);
      if (y.size() <= 0 || x.size() <= 0) {
        place.zero_();
      } else if (const Tensor g = rows(gradient, y, x, false), v = rows(input, y, x, true); place.scalar_type() == v.scalar_type()) {
        at::mm_out(place, g.t(), v);
      } else {
        place.copy_(at::mm(g.t(), v));
      }
    }
  }
}

}  // namespace

Tensor convolution_gradient(const ConvolutionPass& pass, Tensor weight_gradient, Tensor bias_gradient,
                            const std::function<void()>& written) {
  const bool by_products = pass.stride == 1 && pass.weight.size(2) > 1 && pass.gradient.size(2) <= small && pass.gradient.size(3) <= small;
  const bool bias = bias_gradient.defined();
  Tensor input_gradient;
  if (by_products) {
    small_weight_gradient(pass, weight_gradient);
    if (bias) bias_gradient.copy_(at::sum(pass.gradient, {0, 2, 3}));
    written();
    if (!pass.needs_input) return input_gradient;
  }
  const std::vector<std::int64_t> bias_sizes{pass.weight.size(0)};
  const std::array<bool, 3> wanted{pass.needs_input, !by_products, !by_products && bias};
  const auto found = at::convolution_backward(pass.gradient, pass.input, pass.weight, at::OptionalIntArrayRef(bias_sizes),
                                              {pass.stride, pass.stride}, {pass.padding, pass.padding}, {1, 1}, false, {0, 0}, 1, wanted);
  if (!by_products) {
    weight_gradient.copy_(std::get<1>(found));
    if (bias) bias_gradient.copy_(std::get<2>(found));
    written();
  }
  return std::get<0>(found);
}

}  // namespace ripieno
