#include "ripieno/strategy/optimiser_step.h"

#include "ripieno/numeric/elementwise.h"

namespace ripieno::strategy {

void divide_by_loss_scale(Learner& learner) {
  if (learner.loss_scale()) numeric::scale(learner.gradients(), 1 / learner.loss_scale()->value());
}

bool step_if_finite(Workplace& place, optim::Optimiser& optimiser, double rate) {
  Learner& learner = place.learner;
  const observe::StageTimer timer(place.recorder, place.comm.runtime(), observe::Stage::optimise);
  optim::LossScale* const loss_scale = learner.loss_scale();
  const bool finite = !loss_scale || numeric::all_finite(learner.gradients());
  if (loss_scale) loss_scale->update(finite);
  if (!finite) return false;
  optimiser.begin_step();
  optimiser.update(0, learner.parameters(), learner.gradients(), rate);
  return true;
}

std::unique_ptr<optim::Optimiser> workers_optimiser(const Plan& plan, const Workplace& place) {
  if (place.loop) return place.loop->make_optimiser();
  return optim::make_optimiser(plan.optimiser, place.learner.layout().parameters, place.learner.layout().type);
}

OwnSteps::OwnSteps(const Plan& plan, Workplace& place) : place_(place), optimiser_(workers_optimiser(plan, place)) {}

Task<bool> OwnSteps::take(TrainingStep step, Weighting weighting, StepResult* result) {
  const bool is_new = taken_ != step.number;
  if (is_new) {
    Learner& learner = place_.learner;
    const auto pass = co_await learner.begin(step.batch, std::move(weighting));
    static_cast<PassResult&>(result_) = co_await pass->finish();
    divide_by_loss_scale(learner);
    step_if_finite(place_, *optimiser_, step.rate);
    learner.commit();
    taken_ = step.number;
  }
  *result = result_;
  co_return is_new;
}

}  // namespace ripieno::strategy
