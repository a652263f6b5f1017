// The fused operations of run_layers (fused/run_layers.h), with gradients; each does the work of several layers. They
// compute in fp32, or under autocast in its 16-bit type; gradients of parameters are fp32, written to lent places
// (fused/gradient_places.h). Images are N x C x H x W, and results are stored channels-last.
#pragma once

#include <torch/torch.h>

#include <optional>

namespace ripieno::fused {

using MaybeTensor = std::optional<torch::Tensor>;  // autograd does not accept undefined tensors as inputs

/// This thread's type of computation: autocast's type while it is on.
torch::ScalarType compute_type();

struct ConvolutionForm {
  std::int64_t stride = 1, padding = 0;
  bool relu = false, pool = false;
};

/// pool(relu(convolution(x) + bias)); bias, relu and pool (2 x 2) are optional. `weight` is stored channels-last.
torch::Tensor convolution_operation(const torch::Tensor& x, const torch::Tensor& weight, const MaybeTensor& bias,
                                    ConvolutionForm form);

/// relu(x * weight^T + bias); relu is optional. x: N x inputs; weight: outputs x inputs.
torch::Tensor linear_operation(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                               bool relu);

struct BatchNormForm {
  torch::Tensor running_mean, running_variance;  ///< updated
  double momentum = 0.1, epsilon = 1e-5;
  bool relu = false;
};

/// relu(batch_norm(x) + more), with the batch's statistics; more and relu are optional (Ioffe and Szegedy, Batch
/// normalization, 2015).
torch::Tensor batch_norm_operation(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                                   const MaybeTensor& more, const BatchNormForm& form);

/// pool(relu(x)), of 2 x 2.
torch::Tensor relu_max_pool_operation(const torch::Tensor& x);

// Shared by the operations.

/// Turns autocast off inside an operation, which chooses types itself.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::DispatchKeySet(c10::DispatchKey::AutocastCPU)};
};

/// Whether others share this gradient's numbers, so that they must not be changed.
bool is_shared(const torch::Tensor& gradient);

/// A pooled image, of half the height and width; `chosen` as in kernels::max_pool.
struct Pooled {
  torch::Tensor y, chosen;
};
Pooled pooled(const torch::Tensor& x, bool relu);
/// The gradient by the input of pooling (and ReLU), whose sizes are `sizes`.
torch::Tensor before_pooling(const torch::Tensor& gradient, const torch::Tensor& chosen, torch::IntArrayRef sizes);

}  // namespace ripieno::fused
