// Tracks whether the tensors of a FlatModel's module are still in the flat memory. A user's own loop may change that:
// loading into the module, or its to(), gives tensors other memory. Only such loops (parallel.h) need this.
#pragma once

#include <string>
#include <vector>

#include "ripieno/train/flat_model.h"

namespace ripieno::train {

class TensorHomes {
 public:
  /// Remembers where the tensors are now: construct it right after the model, which must outlive it.
  explicit TensorHomes(const FlatModel& model);

  /// Whether every tensor is in its place.
  bool is_in_place() const;
  /// Copies tensors with other memory back into the flat memory and makes them views of it again; returns whether there
  /// were any. Throws Error(usage), which names the tensor, if its type, shape or device has changed, or if a frozen
  /// one now requires a gradient.
  bool bring_back();
  /// Some numbers of each trained parameter, at the same places each time.
  std::vector<double> sample() const;
  /// A line for each parameter: name, shape, type, and whether it is frozen.
  std::vector<std::string> lines() const;
  /// Whether this is one of the module's parameters, trained or frozen.
  bool knows(const torch::Tensor& parameter) const;

 private:
  struct Home {
    std::string name;
    torch::Tensor tensor, place;  // the module's tensor, and its part of the flat memory
    bool frozen;
  };
  void add(const std::string& name, const torch::Tensor& tensor);
  void choose_sample();

  const FlatModel& model_;
  std::vector<Home> homes_;           // for trained and frozen parameters and buffers
  std::vector<std::size_t> sampled_;  // elements of the flat parameters
  torch::Tensor sampled_there_;       // the same indices, on a device other than the CPU
};

}  // namespace ripieno::train
