// Stochastic gradient descent with momentum (Sutskever et al., "On the importance of initialization and momentum in
// deep learning", 2013), as in torch.optim.SGD with dampening 0. State: one number per parameter with momentum, none
// without. A step:
//   1. g <- gradient + weight_decay * w
//   2. with momentum: m <- g in the first step, then momentum * m + g
//   3.                g <- g + momentum * m with nesterov, else m
//   4. w <- w - learning_rate * g
#pragma once

#include "ripieno/optim/flat_state.h"
#include "ripieno/optim/optimiser.h"

namespace ripieno::optim {

class Sgd : public Optimiser {
 public:
  /// Options must have passed make_optimiser()'s checks.
  Sgd(const OptimiserOptions& options, std::size_t elements, DType type);
  void begin_step() override { state_.begin_step(); }
  void update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) override;
  void visit(StateVisitor& visitor) override { state_.visit(visitor); }

 private:
  template <class T>
  void update_as(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate);

  OptimiserOptions options_;
  FlatState state_;
};

}  // namespace ripieno::optim
