// A convolution and its gradients, each by the fastest algorithm that its form allows:
//   3 x 3, stride 1, many channels: Winograd's minimal filtering (fused/winograd.h), in bf16 too where the processor's
//   products of bf16 are not much faster than those of fp32; small images (4 x 4 and less): products of pixels
//   (fused/pixel_products.h), in fp32 where they are fewer than Winograd's, and for the weights' gradient in bf16 too;
//   all else: LibTorch's. On CPUs products of fp16 numbers are summed up in fp32, and the results rounded.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <variant>

#include "ripieno/fused/pixel_products.h"
#include "ripieno/fused/winograd.h"

namespace ripieno::fused {

struct Convolution {
  std::vector<std::int64_t> input, weight;  ///< sizes: N x I x H x W, O x I x K x K
  std::int64_t stride = 1, padding = 0;
  torch::ScalarType type = torch::kFloat32;
  /// The algorithm; monostate: LibTorch's. Depends only on sizes and processor, so both passes use the same.
  std::variant<std::monostate, PixelProducts, Winograd> algorithm() const;
  /// Whether computing the output channels in parts costs about as much as all at once.
  bool divides() const;
};

/// Converts a weight of any type to the form that convolve() and backward() read.
torch::Tensor weight_for(const Convolution& form, const torch::Tensor& weight);

struct ConvolutionOperands {
  const torch::Tensor& input;
  const torch::Tensor& weight;  ///< from weight_for()
};

/// N x O x H' x W'; `bias` may be undefined.
torch::Tensor convolve(const Convolution& form, const ConvolutionOperands& operands, const torch::Tensor& bias);

/// Destinations of the parameters' gradients.
struct ConvolutionGradients {
  torch::Tensor weight;           ///< of any type, channels-last
  torch::Tensor bias;             ///< of any type, or undefined
  std::function<void()> written;  ///< called once they are written; if possible before the input's gradient is computed
  /// If the weight has parts (of a convolution that divides()), their rows. Each part's gradient is then written by
  /// itself, followed by part_written instead of `written`: the last part's first, and the bias's before it.
  std::vector<std::int64_t> rows = {};
  std::function<void(std::size_t part)> part_written = {};
};

/// `gradient` is by the result, in the operands' type. Returns the gradient by the input, or undefined if it is not
/// needed.
torch::Tensor backward(const Convolution& form, const ConvolutionOperands& operands, const torch::Tensor& gradient,
                       const ConvolutionGradients& places, bool needs_input);

}  // namespace ripieno::fused
