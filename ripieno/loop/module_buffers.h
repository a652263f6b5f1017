// Gives all ranks the buffers of rank 0's module, of every type, bit by bit.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "ripieno/collective/communicator.h"

namespace ripieno::loop {

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

 private:
  std::vector<std::string> names_;
  std::vector<torch::Tensor> buffers_, packed_;  // packed_: on the host, in one block
  torch::Tensor memory_;                         // a whole number of words
};

}  // namespace ripieno::loop
