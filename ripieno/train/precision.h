// What a model is computed in.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "ripieno/train/torch_internals.h"

namespace ripieno::train {

enum class Precision : std::uint8_t {
  fp32,
  fp64,  ///< for tests of exactness
  bf16,  ///< forward and backward under autocast; parameters, gradients and optimiser in fp32
  fp16,  ///< the same, with a loss scale
};

/// Throws Error(usage) on an unknown name.
Precision find_precision(const std::string& name);

/// Of the CPU. False where this processor is known to have no instructions for it: LibTorch then computes by way of
/// fp32, which takes longer than fp32 itself.
bool has_instructions(Precision precision);

/// Casts what is worth casting to bf16 or fp16 as long as it lives; the casts of weights are kept until its end.
class Autocast {
 public:
  Autocast(Precision precision, torch::DeviceType device);

 private:
  AutocastSwitch autocast_;
};

/// As Python's Module.to(dtype); LibTorch's converts whole numbers too, such as the batches that batch norm counts.
void compute_in(torch::nn::Module& model, torch::ScalarType type);

}  // namespace ripieno::train
