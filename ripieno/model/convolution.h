// A convolution and its gradients, each in the fastest way that its form allows:
//   3 x 3, stride 1, fp32, many channels: Winograd's minimal filtering (model/winograd.h);
//   the weights' gradient of small images (4 x 4 and less): one matrix product for each of the kernel's places, over those pixels
//   alone that it meets in the image (of a 2 x 2 image padded for a 3 x 3 kernel less than half of the work);
//   all else: LibTorch's.
#pragma once

#include <torch/torch.h>

#include <functional>

#include "ripieno/model/winograd.h"

namespace ripieno {

struct Convolution {
  std::vector<std::int64_t> input, weight;  ///< sizes: N x I x H x W, O x I x K x K
  std::int64_t stride = 1, padding = 0;
  torch::ScalarType type = torch::kFloat32;
  /// Whether, and how, by Winograd's filtering: by the sizes, so that both passes do the same.
  std::optional<Winograd> winograd() const;
};

/// The weight as both passes read it: as it is, or at Winograd's points.
torch::Tensor weight_for(const Convolution& form, const torch::Tensor& weight);

struct ConvolutionOperands {
  const torch::Tensor& input;
  const torch::Tensor& weight;  ///< weight_for
};

/// N x O x H' x W'; `bias` may be undefined.
torch::Tensor convolve(const Convolution& form, const ConvolutionOperands& operands, const torch::Tensor& bias);

/// Where the gradients of parameters go.
struct ConvolutionGradients {
  torch::Tensor weight;           ///< of any type, channels-last
  torch::Tensor bias;             ///< of any type, or undefined
  std::function<void()> written;  ///< called once they are; before the input's gradient is computed, where that can be
};

/// `gradient`: by the result, of the operands' type. Returns the gradient by the input, or undefined where it is not needed.
torch::Tensor backward(const Convolution& form, const ConvolutionOperands& operands, const torch::Tensor& gradient,
                       const ConvolutionGradients& places, bool needs_input);

}  // namespace ripieno
