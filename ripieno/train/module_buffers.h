// A module's buffers, of every type, as they are exchanged between ranks: each in its own type's bits, or the mean of
// those that are floating-point numbers.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "ripieno/collective/communicator.h"

namespace ripieno::train {

class ModuleBuffers {
 public:
  /// Those that the module has now. Throws Error(usage) on one that is not dense.
  ModuleBuffers(torch::nn::Module& module, const Memory& memory);

  bool empty() const { return buffers_.empty(); }
  /// A line each: name, shape and type.
  std::vector<std::string> lines() const;
  /// Throws Error(usage) where one has another shape or type than it had.
  void check() const;

  /// All ranks end with rank 0's bits.
  Task<> give_first(collective::Communicator comm);
  /// All ranks end with the sum of weight * its numbers of floating-point buffers; the weights add up to 1. Numbers
  /// that are alike on all ranks stay as they are to the bit. Of the others: rank 0's.
  Task<> average(collective::Communicator comm, double weight);

 private:
  torch::Tensor numbers() const;

  std::vector<std::string> names_;
  std::vector<torch::Tensor> buffers_, packed_;  // packed_: on the host, in one piece of memory
  torch::Tensor memory_;                         // of whole words
  std::int64_t numbers_ = 0;                     // of floating-point buffers
};

}  // namespace ripieno::train
