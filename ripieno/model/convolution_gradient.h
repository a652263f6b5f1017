// The gradients of a convolution. Where images are small (4 x 4 and less), the weights' gradient is computed as one matrix
// product for each of the kernel's places, over those pixels alone that it meets in the image: of a 2 x 2 image padded for a
// 3 x 3 kernel, it is less than half of the work, and matrix products of this form are fast.
#pragma once

#include <torch/torch.h>

#include <functional>

namespace ripieno {

struct ConvolutionPass {
  const torch::Tensor& gradient;  ///< by the result, N x O x H' x W', channels-last
  const torch::Tensor& input;     ///< N x I x H x W, of the same type
  const torch::Tensor& weight;    ///< O x I x K x K, of the same type
  std::int64_t stride = 1, padding = 0;
  bool needs_input = true;
};

/// Writes the weight's and, where it is defined, the bias's gradient into tensors of any type, and calls `written`; returns the
/// gradient by the input, or undefined where it is not needed.
torch::Tensor convolution_gradient(const ConvolutionPass& pass, torch::Tensor weight_gradient, torch::Tensor bias_gradient,
                                   const std::function<void()>& written);

}  // namespace ripieno
