// Groups of tensors that are not stepped on alike, each with an optimiser of its own: vectors (biases, and the weights
// of normalisations) and the last layer's matrix at rates that are times the others' (Page, "How to train your ResNet",
// part 5, 2018: biases at 64 times), the first layer until a step after which it rests, and with muon all but the
// hidden matrices by sgd. Weight decay is not times the factor: what a step takes off a weight is the same in all
// groups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ripieno/optim/optimiser.h"

namespace ripieno::optim {

/// Whether the options treat some tensors unlike others.
bool has_groups(const OptimiserOptions& options);

class ByGroup : public Optimiser {
 public:
  using Make = std::unique_ptr<Optimiser> (*)(const OptimiserOptions&, std::size_t elements, DType);

  /// Options as make_optimiser() has checked them; its `tensors` cover the `elements` one after the other:
  /// Error(internal) otherwise. `make` makes the rule that a group's options name.
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
    std::size_t begin, end;  // in the whole
    std::size_t group, at;   // from `at` on in the group's numbers
  };

  std::size_t group_of(const TensorShape& tensor, bool is_head);
  double rate_of(const Group& group) const;

  OptimiserOptions options_;
  std::vector<Group> groups_;
  std::vector<Part> parts_;  // ascending
  std::size_t elements_;
  std::int64_t step_ = 0;
};

}  // namespace ripieno::optim
