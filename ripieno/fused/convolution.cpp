#include "ripieno/fused/convolution.h"

#include <array>

#include "ripieno/core/processor.h"

namespace ripieno::fused {
namespace {

using torch::Tensor;

/// The least product of input and output channels: with fewer, products of pixels are too small to be fast.
constexpr std::int64_t worthwhile = 4096;

/// The cost of a product of two bf16 numbers, relative to fp32.
double bf16_product() {
  const auto matrices = processor_has(Instructions::amx_bf16), vectors = processor_has(Instructions::avx512_bf16);
  if (!matrices || !vectors) return 0;
  return *matrices ? 1. / 8 : *vectors ? 1. / 2 : 1;
}

/// On CPUs LibTorch multiplies fp16 slowly (a convolution's backward pass takes some 200 times as long as in fp32). So
/// products of fp16 numbers are summed up in fp32, as tensor cores do, and the results rounded.
bool is_in_fp32(const Convolution& form, const Tensor& operand) {
  return form.type == torch::kFloat16 && operand.is_cpu();
}

Convolution in_fp32(Convolution form) {
  form.type = torch::kFloat32;
  return form;
}

}  // namespace

std::variant<std::monostate, PixelProducts, Winograd> Convolution::algorithm() const {
  if (type != torch::kFloat32 && type != torch::kBFloat16) return {};
  const bool bf16 = type == torch::kBFloat16;
  const auto winograd = Winograd::of(input, weight, stride, padding, bf16 ? bf16_product() : 1);
  if (!bf16 && weight[0] * weight[1] >= worthwhile) {
    const auto products = PixelProducts::of(input, weight, stride, padding);
    if (products && (!winograd || products->operations() <= winograd->operations())) return *products;
  }
  if (winograd) return *winograd;
  return {};
}

bool Convolution::divides() const {
  return type != torch::kFloat16 && PixelProducts::of(input, weight, stride, padding) &&
         !std::holds_alternative<Winograd>(algorithm());
}

Tensor weight_for(const Convolution& form, const Tensor& weight) {
  if (is_in_fp32(form, weight)) return weight_for(in_fp32(form), weight.to(torch::kFloat16).to(torch::kFloat32));
  const auto algorithm = form.algorithm();
  const auto* winograd = std::get_if<Winograd>(&algorithm);
  // Always goes through an operator, so that operator watches (train/gate_watch.h) see it.
  return winograd ? winograd->prepared(weight.detach()) : weight.to(form.type);
}

Tensor convolve(const Convolution& form, const ConvolutionOperands& operands, const Tensor& bias) {
  if (is_in_fp32(form, operands.input)) {
    const Tensor input = operands.input.to(torch::kFloat32), wide = bias.defined() ? bias.to(torch::kFloat32) : bias;
    return convolve(in_fp32(form), {input, operands.weight}, wide).to(torch::kFloat16);
  }
  const auto algorithm = form.algorithm();
  if (const auto* winograd = std::get_if<Winograd>(&algorithm)) {
    return winograd->forward(operands.input, operands.weight, bias.defined() ? bias.to(torch::kFloat32) : bias);
  }
  if (const auto* products = std::get_if<PixelProducts>(&algorithm))
    return products->forward(operands.input, operands.weight, bias);
  return at::conv2d(operands.input, operands.weight, bias, form.stride, form.padding);
}

Tensor backward(const Convolution& form, const ConvolutionOperands& operands, const Tensor& gradient,
                const ConvolutionGradients& places, bool needs_input) {
  if (is_in_fp32(form, operands.input)) {
    const Tensor input = operands.input.to(torch::kFloat32), wide = gradient.to(torch::kFloat32);
    const Tensor found = backward(in_fp32(form), {input, operands.weight}, wide, places, needs_input);
    return found.defined() ? found.to(torch::kFloat16) : found;
  }
  const bool bias = places.bias.defined();
  const auto sum_bias = [&] {
    if (bias) places.bias.copy_(at::sum(gradient, {0, 2, 3}));
  };
  const auto algorithm = form.algorithm();
  if (const auto* winograd = std::get_if<Winograd>(&algorithm)) {
    sum_bias();
    return winograd->backward(gradient, operands.input, operands.weight, places.weight, places.written, needs_input);
  }
  const auto small = PixelProducts::of(form.input, form.weight, form.stride, form.padding);
  if (small) {
    std::int64_t end = form.weight[0];
    for (std::size_t part = places.rows.size(); part-- > 0;) {
      if (end == form.weight[0]) sum_bias();
      const std::int64_t count = places.rows[part];
      end -= count;
      small->weight_gradient(gradient.narrow(1, end, count), operands.input, places.weight.narrow(0, end, count));
      places.part_written(part);
    }
    if (places.rows.empty()) {
      small->weight_gradient(gradient, operands.input, places.weight);
      sum_bias();
      places.written();
    }
    if (!needs_input) return Tensor();
    if (std::holds_alternative<PixelProducts>(algorithm)) return small->input_gradient(gradient, operands.weight);
  }
  const std::vector<std::int64_t> bias_sizes{form.weight[0]};
  const std::array<bool, 3> wanted{needs_input, !small, !small && bias};
  const auto found = at::convolution_backward(gradient, operands.input, operands.weight,
                                              at::OptionalIntArrayRef(bias_sizes), {form.stride, form.stride},
                                              {form.padding, form.padding}, {1, 1}, false, {0, 0}, 1, wanted);
  if (!small) {
    places.weight.copy_(std::get<1>(found));
    if (bias) places.bias.copy_(std::get<2>(found));
    places.written();
  }
  return std::get<0>(found);
}

}  // namespace ripieno::fused
