// A FlatModel's numbers on the host, where they are exchanged and where the optimiser steps. If the module computes on
// the CPU, this is the module's own memory and nothing is copied. If it computes on another device, the functions here
// copy.
#pragma once

#include <cstddef>
#include <vector>

#include "ripieno/core/memory.h"
#include "ripieno/train/flat_model.h"

namespace ripieno::train {

class HostCopy {
 public:
  /// Begins with the model's numbers. `memory` holds them, if the device is not the CPU.
  HostCopy(const FlatModel& model, const Memory& memory);

  NumberSpan parameters() const;
  NumberSpan gradients() const;
  NumberSpan buffers() const;
  NumberSpan frozen() const;

  /// Copies from the host to the device: trained parameters (all or one bucket's); buffers and frozen parameters; all
  /// of these; gradients.
  void parameters_to_device();
  void parameters_to_device(std::size_t bucket);
  void buffers_to_device();
  void state_to_device();
  void gradients_to_device();
  /// Copies from the device to the host. BackwardWatch copies each bucket's gradients by itself.
  void parameters_to_host();
  void buffers_to_host();
  void gradients_to_host(std::size_t bucket);

 private:
  bool is_the_models() const { return host_buckets_.empty(); }
  void cross(const torch::Tensor& to, const torch::Tensor& from) const;

  DType type_;
  FlatBlocks device_, host_;  // the same tensors if the device is the CPU
  std::vector<FlatBlocks> device_buckets_,
      host_buckets_;  // parameters and gradients by bucket; empty if the device is the CPU
};

}  // namespace ripieno::train
