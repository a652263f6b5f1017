// A FlatModel's numbers on the host, where they are exchanged and where the optimiser steps. Where the module computes
// on the CPU this is the module's own memory and nothing crosses. Where it computes on another device, the numbers
// cross when a function here is called.
#pragma once

#include <cstddef>
#include <vector>

#include "ripieno/core/memory.h"
#include "ripieno/train/flat_model.h"

namespace ripieno::train {

class HostCopy {
 public:
  /// Begins with the model's numbers. `memory` is what they lie in, where the device is not the CPU.
  HostCopy(const FlatModel& model, const Memory& memory);

  NumberSpan parameters() const;
  NumberSpan gradients() const;
  NumberSpan buffers() const;
  NumberSpan frozen() const;

  /// From the host to the device: trained parameters, all or a bucket's; buffers with frozen parameters; all of these;
  /// gradients.
  void parameters_to_device();
  void parameters_to_device(std::size_t bucket);
  void buffers_to_device();
  void state_to_device();
  void gradients_to_device();
  /// And back. BackwardWatch brings each bucket's gradients by itself.
  void parameters_to_host();
  void buffers_to_host();
  void gradients_to_host(std::size_t bucket);

 private:
  bool is_the_models() const { return host_buckets_.empty(); }
  void cross(const torch::Tensor& to, const torch::Tensor& from) const;

  DType type_;
  FlatBlocks device_, host_;                               // the same tensors on the CPU
  std::vector<FlatBlocks> device_buckets_, host_buckets_;  // parameters and gradients of each bucket; none on the CPU
};

}  // namespace ripieno::train
