// The precision in which a model is computed.
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

/// Whether the CPU has instructions for it. False if it is known to have none: LibTorch then goes through fp32, which
/// takes longer than fp32 itself.
bool has_instructions(Precision precision);

/// Turns autocast to bf16 or fp16 on for as long as it lives; casts of weights are cached until then.
class Autocast {
 public:
  Autocast(Precision precision, torch::DeviceType device);

 private:
  AutocastSwitch autocast_;
};

/// As Python's Module.to(dtype). LibTorch's own converts integers too, such as batch norm's count of batches.
void compute_in(torch::nn::Module& model, torch::ScalarType type);

}  // namespace ripieno::train
