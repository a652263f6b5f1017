// Steps of a rank's optimiser on its learner's gradients.
#pragma once

#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// Divides the gradients by the loss scale, if there is one.
void divide_by_loss_scale(Learner& learner);

/// Takes the step, unless gradients overflowed under a loss scale; tells the loss scale which, and returns whether it
/// took it. Ranks with the same gradients decide alike.
bool step_if_finite(Workplace& place, optim::Optimiser& optimiser, double rate);

/// The optimiser of a worker's steps: the user's, where the loop is the user's, or the plan's.
std::unique_ptr<optim::Optimiser> workers_optimiser(const Plan& plan, const Workplace& place);

/// A worker's own steps: a pass over a batch, then the optimiser's step on its weighted gradients. Such a step depends
/// on no other rank: it commits when its pass is over, and taking it again has no effect.
class OwnSteps {
 public:
  /// `place` outlives it.
  OwnSteps(const Plan& plan, Workplace& place);

  /// Takes the step and returns true, or returns false if it was taken before. `result` is the step's in both cases.
  Task<bool> take(TrainingStep step, Weighting weighting, StepResult* result);

  void visit(StateVisitor& visitor) { optimiser_->visit(visitor); }

 private:
  Workplace& place_;
  std::unique_ptr<optim::Optimiser> optimiser_;
  std::optional<std::uint64_t> taken_;  // the number of the last step
  StepResult result_;                   // of the last step
};

}  // namespace ripieno::strategy
