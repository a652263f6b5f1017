// The trainer: the one loop in which every rank that computes trains, whatever the strategy.
//
//   start, then for each epoch: begin_epoch; for each of its steps: attempt, commit, record; end_epoch, record,
//   checkpoint
//
// Where the workplace can regroup, an attempt that a peer breaks off (Error(peer)) is dropped: the rank gets a fresh
// communicator, evens out with the others who has committed what (Strategy::recover), and takes the step again. Ranks
// then leave together, so that nobody is gone whom another needs to recover. What dropped attempts sent, the ledger
// keeps apart. Internal to strategy/: Strategy::run() is its only caller.
#pragma once

#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// The error of a peer with which the task ended, if it did.
Task<std::exception_ptr> loss_in(Task<> task);

class Trainer {
 public:
  explicit Trainer(Strategy& strategy);

  Task<> run();

 private:
  using Act = std::function<Task<>()>;

  Task<> train();
  Task<> take(TrainingStep step);
  Task<> end_epoch(EpochEnd end);

  /// Takes part in an act until it is done; true where it was done by recovering, not by the act itself.
  Task<bool> retake(Act act, BrokenOff what);
  /// After a loss: regroups and recovers, as often as it takes. Throws the loss where nobody can.
  Task<bool> recover(std::exception_ptr loss, BrokenOff what);
  Task<> recover_once(BrokenOff what, bool* caught_up);

  TrainingStep step_at(std::uint32_t epoch, std::uint32_t k, std::uint32_t steps) const;
  EpochEnd end_of(std::uint32_t epoch) const;

  Strategy& strategy_;
  const Plan& plan_;
  Workplace& place_;
  optim::LearningRate learning_rate_;
};

}  // namespace ripieno::strategy
