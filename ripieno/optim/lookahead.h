// Lookahead (Zhang et al., "Lookahead optimizer: k steps forward, 1 step back", 2019) around any optimiser: keeps a
// running mean of the weights, continues from it, and so evaluates and saves it. At every k-th step:
//   slow <- slow + (1 - d) (w - slow);  w <- slow,   d = decay * (steps done / steps in all)^power
// After the last step w <- slow: steps since the last k-th one count for nothing. (Of fewer steps than k there is no
// mean, and w stays.)
// With power 0 it is the paper's form (alpha = 1 - decay); with power 3 and decay 0.95^5 that of airbench94 (Jordan,
// "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv:2404.00498, 2024), which moves fast at first and averages at
// the end; airbench94 takes the same mean of batch norm's statistics, which here stay those of the last batches.
// State: one number per parameter.
#pragma once

#include <memory>

#include "ripieno/optim/flat_state.h"
#include "ripieno/optim/optimiser.h"

namespace ripieno::optim {

class Lookahead : public Optimiser {
 public:
  /// Options must have passed make_optimiser()'s checks.
  Lookahead(std::unique_ptr<Optimiser> inner, const OptimiserOptions& options, std::size_t elements, DType type);
  void begin_step() override;
  void update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) override;
  bool by_matrices() const override { return inner_->by_matrices(); }
  /// Shows the inner optimiser's state, then "lookahead.step" and "lookahead.slow".
  void visit(StateVisitor& visitor) override;

 private:
  template <class T>
  void average(std::size_t offset, NumberSpan weights, double decay);

  std::unique_ptr<Optimiser> inner_;
  std::int64_t every_, total_;
  double decay_, power_;
  FlatState state_;
};

}  // namespace ripieno::optim
