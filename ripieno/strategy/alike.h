// For strategies whose workers hold the same weights after every exchange: how they begin, commit, end an epoch and
// recover. What is left to say is the attempt: how gradients are computed and averaged.
//
// commit   the optimiser's step on the averaged gradients, unless they overflowed under a loss scale; then what the
//          averager and the learner have staged
// epoch    the buffers (batch norm's statistics) become their mean over the ranks; all evaluate a share of the test set
// recover  a rank is ahead of another by one commit at most, for what it committed needed the other's part. Who is
//          behind takes parameters, optimiser and loss scale from one who is ahead, and commits what it has staged
//          itself: its residuals and its statistics are its own. Of an epoch's end it takes the mean of the buffers,
//          and the score.
#pragma once

#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/evaluate.h"
#include "ripieno/strategy/optimiser_step.h"
#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// Gives every rank rank 0's parameters, trained and frozen, and buffers, of which nothing is sent where all ranks hold
/// the same bits already (made from one seed). Ranks with another model get Error(mismatch).
Task<> start_alike(collective::Communicator comm, Learner& learner);

class Alike : public Strategy {
 public:
  NumberSpan consensus() override { return place_.learner.parameters(); }
  void visit(StateVisitor& visitor) override;

 protected:
  /// Gradients are averaged bucket by bucket along the strategy's route.
  Alike(const StrategyInfo& info, const Plan& plan, Workplace workplace);

  Task<> start() override { return start_alike(place_.comm, place_.learner); }
  void commit(TrainingStep step) override;
  Task<> end_epoch(EpochEnd end, observe::EpochRecord* record) override;
  Task<bool> recover(BrokenOff what) override;

  /// Whether ranks meet in this step: who commits it knows that all others have staged it.
  virtual bool exchanges(TrainingStep) const { return true; }
  /// The optimiser's step, when the gradients are averaged.
  virtual void update(TrainingStep step) { step_if_finite(place_, *optimiser_, step.rate); }
  /// What else is committed with a step.
  virtual void settle();

  /// Averages a bucket of the gradients; buckets may be under way side by side.
  Task<> average(std::size_t bucket, double weight);
  /// Its value, where there is one; else 1.
  double loss_scale() const { return place_.learner.loss_scale() ? place_.learner.loss_scale()->value() : 1; }

  const Layout& layout_;
  std::unique_ptr<collective::Averager> averager_;  // a slot for each bucket
  std::unique_ptr<optim::Optimiser> optimiser_;

 private:
  Task<> average_and_evaluate(EpochEnd end);
  Task<> hand_over(int from, BrokenOff missed);

  std::int64_t done_ = 0;  // steps with an exchange, and epochs' ends at which ranks met, that this rank has committed
  Score score_;            // of the last epoch
  std::unique_ptr<numeric::Numbers> mean_;  // of its buffers
};

}  // namespace ripieno::strategy
