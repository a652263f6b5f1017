// The base of strategies whose workers hold the same weights after every exchange: how they begin, commit, end an epoch
// and recover. A derived class adds the attempt: how gradients are computed and averaged.
//
// commit   the optimiser's step on the averaged gradients, unless they overflowed under a loss scale; then everything
//          that the averager and the learner have staged
// epoch    the buffers (batch norm's statistics) become their mean over the ranks; all evaluate a share of the test set
//          and compare what they hold, unless a user's loop does (loop/replica_check.h)
// recover  a rank is ahead of another by one commit at most, since each commit needs every rank's part. A rank that is
//          behind takes parameters, optimiser and loss scale from one that is ahead, and commits its own staged
//          residuals and statistics. After the end of an epoch it takes the mean of the buffers and the score.
#pragma once

#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/evaluate.h"
#include "ripieno/strategy/optimiser_step.h"
#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// Gives every rank the parameters (trained and frozen) and buffers of rank 0. Sends only those that the ranks do not
/// hold alike already: ranks that made their models from one seed send nothing. A rank with another model gets
/// Error(mismatch).
Task<> start_alike(collective::Communicator comm, Learner& learner);

class Alike : public Strategy {
 public:
  NumberSpan consensus() override { return place_.learner.parameters(); }
  void visit(StateVisitor& visitor) override;

 protected:
  /// Gradients are averaged bucket by bucket along the strategy's route.
  Alike(const StrategyInfo& info, const Plan& plan, Workplace workplace);

  Task<> start() override;
  void commit(TrainingStep step) override;
  Task<> end_epoch(EpochEnd end, observe::EpochRecord* record) override;
  Task<> end_loop() override { return average_buffers(place_.comm, place_.learner); }
  Task<bool> recover(BrokenOff what) override;
  bool is_complete() const override { return true; }
  Task<> compare(Point point) override;

  /// Whether ranks exchange in this step: a rank that commits it then knows that all others have staged it.
  virtual bool exchanges(TrainingStep) const { return true; }
  /// The optimiser's step, called once the gradients are averaged.
  virtual void update(TrainingStep step) { taken_ = step_if_finite(place_, *optimiser_, step.rate) ? 1 : 0; }
  /// Commits everything else that belongs to a step. What error feedback has kept of a step that was not taken is
  /// dropped with it.
  virtual void settle();

  /// Averages one bucket of the gradients; several buckets may be in flight at once.
  Task<> average(std::size_t bucket, double weight);
  /// The loss scale's value, or 1 without a loss scale.
  double loss_scale() const { return place_.learner.loss_scale() ? place_.learner.loss_scale()->value() : 1; }

  const Layout& layout_;
  std::unique_ptr<collective::Averager> averager_;  // a slot for each bucket
  std::unique_ptr<optim::Optimiser> optimiser_;

 private:
  Task<> average_and_evaluate(EpochEnd end);
  Task<> hand_over(int from, BrokenOff missed);

  std::int64_t done_ = 0;   // exchanges that this rank has committed: those of steps and those at ends of epochs
  std::int64_t taken_ = 1;  // whether the last step was: 0 after an overflow
  Score score_;             // of the last epoch
  std::uint64_t parameters_hash_ = 0;
  std::unique_ptr<numeric::Numbers> mean_;  // of the last epoch's buffers
};

}  // namespace ripieno::strategy
