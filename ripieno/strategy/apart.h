// For strategies whose workers hold parameters of their own between exchanges: how they begin, how their epochs end,
// and how they recover. The consensus is the mean over the workers.
//
// epoch    where the plan wants it, the mean of all parameters and buffers is evaluated, and each worker's own; then
//          each is left with what is its own
// recover  a worker is ahead of another by one commit at most: an exchange, whose outcome those who are ahead hand over
//          as the strategy says, or an epoch's end, of which they hand over the score and the consensus
#pragma once

#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/evaluate.h"
#include "ripieno/strategy/optimiser_step.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// start_alike(), after which the ranks of a resumed run have the parameters and buffers back that each of them came
/// with: there they differ by right, and only the models are compared. Throws as start_alike().
Task<> start_apart(collective::Communicator comm, Learner* learner, bool resumed);

class Apart : public Strategy {
 public:
  NumberSpan consensus() override { return consensus_.span(); }
  NumberSpan consensus_buffers() override { return consensus_buffers_.span(); }
  void visit(StateVisitor& visitor) override { own_steps_.visit(visitor); }

 protected:
  Apart(const Plan& plan, Workplace workplace);

  Task<> start() override;
  Task<> end_epoch(EpochEnd end, observe::EpochRecord* record) override;
  Task<bool> recover(BrokenOff what) override;

  /// Between workers of which some are ahead by an exchange, `from` among them: those who are `behind`, in the step
  /// that an abort broke off, commit it, too. True: which is all that there is to the step. Called on all.
  virtual Task<bool> hand_over(int from, bool behind, BrokenOff what) = 0;
  /// To be called with every exchange that this worker commits.
  void exchanged() { ++done_; }

  OwnSteps own_steps_;

 private:
  Task<> evaluate(observe::EpochRecord* record);
  Task<> hand_over_epoch(int from, BrokenOff what);

  std::int64_t done_ = 0;  // exchanges, and evaluations at epochs' ends, that this worker has committed
  numeric::Numbers consensus_, consensus_buffers_;
  Score score_;  // of the last epoch
};

}  // namespace ripieno::strategy
