// What run_layers (fused/run_layers.h) makes of layers: operations with gradients, each doing together what several
// layers do. They compute in fp32, or under autocast in its 16-bit type; gradients of parameters are fp32, and are
// written to where they are wanted (fused/gradient_places.h). Images are N x C x H x W, and results are stored
// channels-last.
#pragma once

#include <torch/torch.h>

#include <optional>

namespace ripieno::fused {

using MaybeTensor = std::optional<torch::Tensor>;  // autograd takes no undefined tensor as an operation's input

/// What this thread computes in: autocast's type while it is on.
torch::ScalarType compute_type();

struct ConvolutionForm {
  std::int64_t stride = 1, padding = 0;
  bool relu = false, pool = false;
};

/// pool(relu(convolution(x) + bias)), the latter three where asked for; pool of 2 x 2. `weight` is stored
/// channels-last.
torch::Tensor convolution_operation(const torch::Tensor& x, const torch::Tensor& weight, const MaybeTensor& bias,
                                    ConvolutionForm form);

/// relu(x * weight^T + bias), relu where asked for. x: N x inputs; weight: outputs x inputs.
torch::Tensor linear_operation(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                               bool relu);

struct BatchNormForm {
  torch::Tensor running_mean, running_variance;  ///< updated
  double momentum = 0.1, epsilon = 1e-5;
  bool relu = false;
};

/// relu(batch_norm(x) + more), the latter two where asked for, by the statistics of the batch (Ioffe and Szegedy, Batch
/// normalization, 2015).
torch::Tensor batch_norm_operation(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                                   const MaybeTensor& more, const BatchNormForm& form);

/// pool(relu(x)), of 2 x 2.
torch::Tensor relu_max_pool_operation(const torch::Tensor& x);

// What the operations share.

/// Within an operation types are as it chose them.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::DispatchKeySet(c10::DispatchKey::AutocastCPU)};
};

/// Whether someone else sees this gradient's numbers, so that they must not be changed.
bool is_shared(const torch::Tensor& gradient);

/// Half the height and width; `chosen`: which of four, or that ReLU let none pass.
struct Pooled {
  torch::Tensor y, chosen;
};
Pooled pooled(const torch::Tensor& x, bool relu);
/// The gradient before pooling, and ReLU; `sizes`: of what was pooled.
torch::Tensor before_pooling(const torch::Tensor& gradient, const torch::Tensor& chosen, torch::IntArrayRef sizes);

}  // namespace ripieno::fused
