// Where the tensors of a FlatModel's module were put, and whether they still lie there. A user's own loop may change
// that: loading into the module, or its to(), gives tensors other memory. Only such loops (parallel.h) need this.
#pragma once

#include <string>
#include <vector>

#include "ripieno/train/flat_model.h"

namespace ripieno::train {

class TensorHomes {
 public:
  /// Remembers where the tensors lie now: make it right after the model, which must outlive it.
  explicit TensorHomes(const FlatModel& model);

  /// Whether every tensor lies where it did.
  bool is_in_place() const;
  /// Copies what lies elsewhere into the flat memory and makes it lie there again; whether there was anything. Throws
  /// Error(usage) that names the tensor where one has another type, shape or device than it had, or a frozen one
  /// requires a gradient now.
  bool bring_back();
  /// Some of the numbers of each trained parameter, the same places each time.
  std::vector<double> sample() const;
  /// A line for each parameter: name, shape, type, and whether it is frozen.
  std::vector<std::string> lines() const;
  /// Whether this is one of the module's parameters, trained or frozen.
  bool knows(const torch::Tensor& parameter) const;

 private:
  struct Home {
    std::string name;
    torch::Tensor tensor, place;  // what the module has, and the flat memory of it
    bool frozen;
  };
  void add(const std::string& name, const torch::Tensor& tensor);
  void choose_sample();

  const FlatModel& model_;
  std::vector<Home> homes_;           // of parameters, trained and frozen, and buffers
  std::vector<std::size_t> sampled_;  // elements of the flat parameters
  torch::Tensor sampled_there_;       // the same, on a device that is not the CPU
};

}  // namespace ripieno::train
