#include "ripieno/model/convolution.h"

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

void small_weight_gradient(const Convolution& form, const Tensor& result_gradient, const Tensor& images, const Tensor& weight_gradient) {
  const Tensor gradient = by_pixel(result_gradient), input = by_pixel(images);
  for (std::int64_t i = 0; i < form.weight[2]; ++i) {
    for (std::int64_t j = 0; j < form.weight[3]; ++j) {
      const Run y(i, form.padding, input.size(0), gradient.size(0)), x(j, form.padding, input.size(1), gradient.size(1));
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

std::optional<Winograd> Convolution::winograd() const {
  return type == torch::kFloat32 ? Winograd::of(input, weight, stride, padding) : std::nullopt;
}

Tensor weight_for(const Convolution& form, const Tensor& weight) {
  const auto winograd = form.winograd();
  return winograd ? winograd->at_points(weight) : weight;
}

Tensor convolve(const Convolution& form, const ConvolutionOperands& operands, const Tensor& bias) {
  if (const auto winograd = form.winograd()) return winograd->forward(operands.input, operands.weight, bias);
  return at::conv2d(operands.input, operands.weight, bias, form.stride, form.padding);
}

Tensor backward(const Convolution& form, const ConvolutionOperands& operands, const Tensor& gradient, const ConvolutionGradients& places,
                bool needs_input) {
  const bool bias = places.bias.defined();
  const auto sum_bias = [&] {
    if (bias) places.bias.copy_(at::sum(gradient, {0, 2, 3}));
  };
  if (const auto winograd = form.winograd()) {
    sum_bias();
    return winograd->backward(gradient, operands.input, operands.weight, places.weight, places.written, needs_input);
  }
  const bool by_products = form.stride == 1 && form.weight[2] > 1 && gradient.size(2) <= small && gradient.size(3) <= small;
  if (by_products) {
    small_weight_gradient(form, gradient, operands.input, places.weight);
    sum_bias();
    places.written();
    if (!needs_input) return Tensor();
  }
  const std::vector<std::int64_t> bias_sizes{form.weight[0]};
  const std::array<bool, 3> wanted{needs_input, !by_products, !by_products && bias};
  const auto found = at::convolution_backward(gradient, operands.input, operands.weight, at::OptionalIntArrayRef(bias_sizes),
                                              {form.stride, form.stride}, {form.padding, form.padding}, {1, 1}, false, {0, 0}, 1, wanted);
  if (!by_products) {
    places.weight.copy_(std::get<1>(found));
    if (bias) places.bias.copy_(std::get<2>(found));
    places.written();
  }
  return std::get<0>(found);
}

}  // namespace ripieno
