// A rank's optimiser steps on its learner's gradients.
#pragma once

#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// The gradients become what they are without a loss scale.
void divide_by_loss_scale(Learner& learner);

/// The step, which is not taken where gradients overflowed under a loss scale; this is told. Gradients that are alike
/// on all ranks make all ranks decide alike.
void step_if_finite(Workplace& place, optim::Optimiser& optimiser, double rate);

/// A worker's own steps: a pass over a batch, then the optimiser's step on its weighted gradients. Such a step depends
/// on nobody else: it commits by itself when its pass is over, and who takes it again finds it taken.
class OwnSteps {
 public:
  /// `place` outlives it.
  OwnSteps(const Plan& plan, Workplace& place);

  /// `result` is the step's, also where it was taken before; then false.
  Task<bool> take(TrainingStep step, Weighting weighting, StepResult* result);

  void visit(StateVisitor& visitor) { optimiser_->visit(visitor); }

 private:
  Workplace& place_;
  std::unique_ptr<optim::Optimiser> optimiser_;
  std::optional<std::uint64_t> taken_;  // the last step's number
  StepResult result_;                   // and what came of it
};

}  // namespace ripieno::strategy
