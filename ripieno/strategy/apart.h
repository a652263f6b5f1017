// The base of strategies whose workers hold different parameters between exchanges: how they begin, end an epoch and
// recover. The consensus is the mean over the workers: of their parameters as weigh() says, of their buffers by
// samples.
//
// epoch    where the plan wants an evaluation, the workers evaluate the mean of all parameters and buffers, and each
//          its own; then each goes on with its own. In a loop of one's own, buffers are averaged; else workers compare
//          the mean, and what they have agreed on in exchanges
// recover  a worker is ahead of another by one commit at most. If that was an exchange, those ahead hand over its
//          outcome as the strategy defines; if it was the end of an epoch, they hand over the score and the consensus.
#pragma once

#include "ripieno/numeric/elementwise.h"
#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/evaluate.h"
#include "ripieno/strategy/optimiser_step.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// start_alike(). In a resumed run each rank then gets back the parameters and buffers that it came with, since they
/// rightly differ there; only the models are compared. Throws as start_alike().
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
  Task<> end_loop() override;
  Task<> conclude() override;
  Task<bool> recover(BrokenOff what) override;
  bool is_complete() const override { return is_idle(); }
  Task<> compare(Point point) override;

  /// Called on all workers when some of them, `from` among them, are ahead by an exchange. The workers that are
  /// `behind`, in the step that an abort broke off, commit that exchange too. Returns true if this completes the step.
  virtual Task<bool> hand_over(int from, bool behind, BrokenOff what) = 0;
  /// Multiplies this worker's parameters by its part of the consensus; all workers' parts add up to 1. Here all have
  /// the same.
  virtual void weigh(NumberSpan parameters) const { numeric::scale(parameters, 1.0 / place_.comm.size()); }
  /// What all workers hold alike at the end of an epoch; empty: nothing.
  virtual NumberSpan agreed() { return {}; }
  /// To be called with every exchange that this worker commits.
  void exchanged() { ++done_; }

  OwnSteps own_steps_;

 private:
  Task<> evaluate(observe::EpochRecord* record);
  std::vector<Held> held_alike();
  Task<> compare_at(EpochEnd end);
  Task<> average_all();
  void keep_consensus();
  Task<> hand_over_epoch(int from, BrokenOff what);

  std::int64_t done_ = 0;  // exchanges, and evaluations at epochs' ends, that this worker has committed
  numeric::Numbers consensus_, consensus_buffers_;
  Score score_;  // of the last epoch
};

}  // namespace ripieno::strategy
