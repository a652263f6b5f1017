// Tracks whether the tensors of a FlatModel's module are still in the flat memory. A user's own loop may change that:
// loading into the module, or its to(), gives tensors other memory. Only such loops (agree.h) need this.
#pragma once

#include <string>
#include <vector>

#include "ripieno/train/flat_model.h"

namespace ripieno::loop {

class TensorHomes {
 public:
  /// Remembers where the tensors are now: construct it right after the model, which must outlive it.
  explicit TensorHomes(const train::FlatModel& model);

  /// Whether every tensor is in its place.
  bool is_in_place() const;
  /// Error(usage), which names it: a parameter was added, frozen or unfrozen since.
  void check_parameters() const;
  /// A line for each parameter: name, shape, type, and whether it is frozen.
  std::vector<std::string> lines() const;
  /// Whether this is one of the module's parameters, trained or frozen.
  bool knows(const torch::Tensor& parameter) const;

 private:
  struct Home {
    torch::Tensor tensor, place;  // the module's tensor, and its part of the flat memory
  };
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
    bool is_trained;
  };
  void add(const torch::Tensor& tensor);

  const train::FlatModel& model_;
  std::vector<Parameter> parameters_;
  std::vector<Home> homes_;  // of trained and frozen parameters, and of buffers
};

}  // namespace ripieno::loop
