// Runs the layers of the zoo's models: fused (fused/run_layers.h) if that room is built, else one by one with LibTorch.
#pragma once

#ifdef RIPIENO_KERNELS
#include "ripieno/fused/run_layers.h"
#else
#include <torch/torch.h>

namespace ripieno::model {

inline torch::Tensor run_layers(torch::nn::Sequential& layers, torch::Tensor x) { return layers->forward(x); }

inline torch::Tensor run_layers(torch::nn::BatchNorm2d& layer, torch::Tensor x, torch::Tensor more = {}) {
  torch::Tensor y = layer->forward(x);
  if (more.defined()) y += more;
  return y.relu_();
}

inline torch::Tensor run_layers(torch::nn::Conv2d& layer, torch::Tensor x, bool pool = false) {
  const torch::Tensor y = layer->forward(x);
  return pool ? torch::max_pool2d(y, 2) : y;
}

}  // namespace ripieno::model
#endif
