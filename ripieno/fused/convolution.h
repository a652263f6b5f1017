// A convolution and its gradients, each in the fastest way that its form allows:
//   3 x 3, stride 1, many channels: Winograd's minimal filtering (fused/winograd.h), in bf16 too where the processor's
//   products of bf16 are not much faster than those of fp32; small images (4 x 4 and less): products of pixels
//   (fused/pixel_products.h), in fp32 where they are fewer than Winograd's, and for the weights' gradient in bf16 too;
//   all else: LibTorch's.
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
  /// How, if not LibTorch's: by the sizes and the processor alone, so that both passes do the same.
  std::variant<std::monostate, PixelProducts, Winograd> way() const;
  /// Whether a few output channels after the others cost about as much as all at once.
  bool divides() const;
};

/// A weight, of any type, as convolve() and backward() read it.
torch::Tensor weight_for(const Convolution& form, const torch::Tensor& weight);

struct ConvolutionOperands {
  const torch::Tensor& input;
  const torch::Tensor& weight;  ///< as weight_for() gives it
};

/// N x O x H' x W'; `bias` may be undefined.
torch::Tensor convolve(const Convolution& form, const ConvolutionOperands& operands, const torch::Tensor& bias);

/// Where the gradients of parameters go.
struct ConvolutionGradients {
  torch::Tensor weight;           ///< of any type, channels-last
  torch::Tensor bias;             ///< of any type, or undefined
  std::function<void()> written;  ///< called once they are; before the input's gradient is computed, where that can be
  /// Where the weight has parts (of a convolution that divides()), their rows. Each part's gradient is written, and
  /// told in place of `written`, for itself: the last one's first, and the bias's before it.
  std::vector<std::int64_t> rows = {};
  std::function<void(std::size_t part)> part_written = {};
};

/// `gradient`: by the result, of the operands' type. Returns the gradient by the input, or undefined where it is not
/// needed.
torch::Tensor backward(const Convolution& form, const ConvolutionOperands& operands, const torch::Tensor& gradient,
                       const ConvolutionGradients& places, bool needs_input);

}  // namespace ripieno::fused
