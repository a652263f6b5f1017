// Runs a chain of layers and fuses groups of them, forward and backward: convolution, ReLU and 2 x 2 maximum pooling;
// batch normalisation, in training, and ReLU (and pooling); linear layer and ReLU. The result is the same as layer by
// layer, up to rounding (fused/convolution.h). Gradients of parameters go to lent places (fused/gradient_places.h);
// under autocast the same operations run in 16 bits, and gradients of parameters are fp32.
//
// Everything else runs unfused: other layers, types other than fp32, convolutions whose weights are not stored
// channels-last, and tensors not on the CPU.
#pragma once

#include <torch/torch.h>

namespace ripieno::fused {

torch::Tensor run_layers(torch::nn::Sequential& layers, torch::Tensor x);
/// relu(layer(x) + more); `more` may be undefined.
torch::Tensor run_layers(torch::nn::BatchNorm2d& layer, torch::Tensor x, torch::Tensor more = {});
/// layer(x), with `pool` followed by 2 x 2 maximum pooling.
torch::Tensor run_layers(torch::nn::Conv2d& layer, torch::Tensor x, bool pool = false);

}  // namespace ripieno::fused
