// Groups of tensors that are stepped on differently, each with its own optimiser. Vectors (biases, and weights of
// normalisations) and the last layer's matrix have factors on the learning rate (Page, "How to train your ResNet", part
// 5, 2018: 64 for biases). The first layer stops after a given step. With muon, sgd steps on everything but the hidden
// matrices. With sgd, muon and adamw the factor does not scale weight decay: a step decays weights alike in all groups.
// (Adam takes the decay as a part of the gradient, whose size it takes away.)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ripieno/optim/optimiser.h"

namespace ripieno::optim {

/// Whether the options treat tensors differently.
bool has_groups(const OptimiserOptions& options);

class ByGroup : public Optimiser {
 public:
  using Make = std::unique_ptr<Optimiser> (*)(const OptimiserOptions&, std::size_t elements, DType);

  /// Options must have passed make_optimiser()'s checks; their `tensors` must cover `elements` without gaps:
  /// Error(internal) otherwise. `make` makes the optimiser that a group's options name.
  ByGroup(const OptimiserOptions& options, std::size_t elements, DType type, Make make);
  void begin_step() override;
  void update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) override;
  bool by_matrices() const override { return options_.name == "muon"; }
  /// Each group's state, with its name after "optimiser.": "optimiser.vectors.momentum".
  void visit(StateVisitor& visitor) override;

 private:
  struct Group {
    std::string name;
    OptimiserOptions options;
    double factor = 1;
    bool first_layer = false;
    std::size_t elements = 0;
    std::unique_ptr<Optimiser> optimiser;
  };
  struct Part {
    std::size_t begin, end;  // of all elements
    std::size_t group, at;   // begins at `at` in the group's elements
  };

  std::size_t group_of(const TensorShape& tensor, bool is_head);
  double rate_of(const Group& group, double scheduled) const;

  OptimiserOptions options_;
  std::vector<Group> groups_;
  std::vector<Part> parts_;  // ascending
  std::size_t elements_;
  std::int64_t step_ = 0;
};

}  // namespace ripieno::optim
