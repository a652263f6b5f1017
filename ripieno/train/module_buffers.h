// Exchanges a module's buffers, of every type, between ranks: as bits, or as means of the floating-point ones.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "ripieno/collective/communicator.h"

namespace ripieno::train {

class ModuleBuffers {
 public:
  /// Takes the module's present buffers. Throws Error(usage) on one that is not dense.
  ModuleBuffers(torch::nn::Module& module, const Memory& memory);

  bool empty() const { return buffers_.empty(); }
  /// A line for each buffer: name, shape and type.
  std::vector<std::string> lines() const;
  /// Throws Error(usage) if a buffer's shape or type has changed.
  void check() const;

  /// All ranks end with rank 0's bits.
  Task<> give_first(collective::Communicator comm);
  /// All ranks end with the sum over ranks of weight * floating-point buffers; the weights add up to 1. Numbers that
  /// are the same on all ranks keep their bits. Other buffers become rank 0's.
  Task<> average(collective::Communicator comm, double weight);

 private:
  torch::Tensor numbers() const;

  std::vector<std::string> names_;
  std::vector<torch::Tensor> buffers_, packed_;  // packed_: on the host, in one block
  torch::Tensor memory_;                         // a whole number of words
  std::int64_t numbers_ = 0;                     // elements of floating-point buffers
};

}  // namespace ripieno::train
