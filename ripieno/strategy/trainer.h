// The trainer: the training loop that every computing rank runs, whatever the strategy.
//
//   start, then for each epoch: begin_epoch; for each of its steps: attempt, commit, record; end_epoch, record,
//   checkpoint. Before each step it may pause (pauses.h)
//
// A user's loop (Workplace::loop) is asked before each step whether there is one; end_loop comes after its last.
//
// Where the workplace can regroup, an attempt that a peer breaks off (Error(peer)) is dropped: the rank gets a fresh
// communicator, catches up with the others' commits (Strategy::recover), and takes the step again. Ranks then end
// training together, so that none leaves while another needs it to recover. The ledger counts the bytes of dropped
// attempts separately. Internal to strategy/: Strategy::run() is its only caller.
#pragma once

#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

class Trainer {
 public:
  explicit Trainer(Strategy& strategy);

  Task<> run();

 private:
  using Act = std::function<Task<>()>;

  Task<> train();
  Task<> leave();
  Task<> take(TrainingStep step);
  Task<> end_epoch(EpochEnd end);
  Task<> pause(Point here, Point next, bool is_complete);

  /// Runs an act until it is done; true if recovering completed it rather than the act itself.
  Task<bool> retake(Act act, BrokenOff what);
  /// After a loss: regroups and recovers, as often as needed. Throws the loss if that is impossible.
  Task<bool> recover(std::exception_ptr loss, BrokenOff what);
  Task<bool> regroup();
  Task<> recover_once(BrokenOff what, bool* caught_up);

  TrainingStep step_at(std::uint32_t epoch, std::uint32_t k, std::uint32_t steps) const;
  EpochEnd end_of(std::uint32_t epoch) const;

  Strategy& strategy_;
  const Plan& plan_;
  Workplace& place_;
  optim::LearningRate learning_rate_;
};

}  // namespace ripieno::strategy
