// A strategy on one rank, as a user's own loop drives it: the strategy's own coroutine (Strategy::run(), as in
// `ripieno train`), with a LoopLearner in place of one that computes. It knows numbers, not tensors, and works in
// virtual time too. All on the runtime's thread; what a task here uses must outlive run().
#pragma once

#include <memory>
#include <optional>

#include "ripieno/loop/finishes.h"
#include "ripieno/loop/loop_learner.h"
#include "ripieno/strategy/registry.h"

namespace ripieno::loop {

class StrategyRun {
 public:
  struct Options {
    LoopLearnerOptions learner;
    Duration limit{0};  ///< of a wait for the other ranks; 0: none. Who ends first waits longer where each has its pace
    /// The recorder that the strategy gets; null: one that keeps nothing.
    observe::Recorder* recorder = nullptr;
  };

  /// `comm` is the run's alone. Throws as make_strategy().
  StrategyRun(collective::Communicator comm, const strategy::Layout& layout, LoopNumbers numbers,
              const strategy::StrategyInfo& info, const strategy::Plan& plan, Options options);

  /// The strategy, to its end. Keep it going beside the loop; it throws nothing.
  Task<> run();

  // The loop's calls, one at a time. They throw the error that has ended the run, on every rank its own.

  /// Until the first weights are there.
  Task<> begin();
  /// Gradients are complete; returns when the parameters are those of the next forward pass.
  Task<> step(Turn turn);
  /// Ends the strategy on all ranks. Then the consensus is valid as the strategy says.
  Task<> finish();
  /// Breaks the run off on all ranks, with an error that says why; run() then ends.
  void leave(std::exception_ptr why);

  std::uint64_t steps() const { return steps_; }
  strategy::Strategy& strategy() { return *strategy_; }
  LoopLearner& learner() { return learner_; }
  /// That the strategy got.
  const observe::Recorder& recorder() const { return recorder_; }
  const collective::Communicator& comm() const { return comm_; }

 private:
  Task<> limited(std::string what, Task<> act);

  collective::Communicator comm_;
  LoopLearner learner_;
  observe::Recorder own_recorder_;
  observe::Recorder& recorder_;
  Duration limit_;
  const bool own_pace_;  // ranks may end at any time
  Finishes finishes_;
  std::unique_ptr<strategy::Strategy> strategy_;
  std::uint64_t steps_ = 0;
};

/// How many steps of a rank count as one where ranks must take equally many; 0: each has its own number. `length`: the
/// steps of an epoch.
std::uint64_t compared_steps(const strategy::StrategyInfo& info, const strategy::Plan& plan, std::uint32_t length);

}  // namespace ripieno::loop
