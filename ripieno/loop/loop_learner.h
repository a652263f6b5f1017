// The learner of a strategy around which a user's own loop runs: its passes are what the loop has computed. Between the
// strategy, which runs on the runtime's thread, and the loop there is one turn at a time: the strategy asks for the
// next gradients (has_next), the loop hands them over (turn) and waits until the strategy asks again; then the
// parameters are those of the next forward pass. It knows numbers, not tensors.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "ripieno/core/async.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::loop {

/// A loop's turn.
struct Turn {
  bool goes_on = true;         ///< false: the loop has ended
  std::uint32_t samples = 1;   ///< of this worker's batch
  double rate = 0;             ///< the learning rate that the user's optimiser has now
  std::exception_ptr trouble;  ///< why the loop cannot go on
};

/// Where the loop's numbers are. Gradients are complete when the loop takes its turn.
struct LoopNumbers {
  NumberSpan parameters, gradients, buffers, frozen;
};

struct LoopLearnerOptions {
  std::uint32_t steps_per_epoch = 1, samples_per_epoch = 1;
  /// Batches count by their samples, for which each step needs a small sum over the workers; else all count alike.
  bool uneven_batches = false;
  double first_rate = 0;  ///< until the first turn
  std::function<std::unique_ptr<optim::Optimiser>()> make_optimiser;
};

class LoopLearner final : public strategy::Learner, public strategy::UsersLoop {
 public:
  /// `comm`: the strategy's. `layout` must outlive this object.
  LoopLearner(collective::Communicator comm, const strategy::Layout& layout, LoopNumbers numbers,
              LoopLearnerOptions options);

  // The loop's side, on the runtime's thread.

  /// Hands over a turn; returns once the strategy asks for the next, or has ended; throws the strategy's error.
  Task<> turn(Turn turn);
  /// turn() without one: for the first.
  Task<> asked();
  /// The strategy gets the error when it next asks, or now if it is asking.
  void break_off(std::exception_ptr error);
  /// The strategy has ended, with an error or null.
  void ended(std::exception_ptr error);
  bool has_ended() const { return ended_; }

  const strategy::Layout& layout() const override { return layout_; }
  NumberSpan parameters() override { return numbers_.parameters; }
  NumberSpan gradients() override { return numbers_.gradients; }
  NumberSpan buffers() override { return numbers_.buffers; }
  NumberSpan frozen() override { return numbers_.frozen; }
  std::uint32_t steps_per_epoch() const override { return options_.steps_per_epoch; }
  std::uint32_t samples_per_epoch() const override { return options_.samples_per_epoch; }
  double own_samples() const override { return learnt_; }
  Task<std::unique_ptr<strategy::Pass>> begin(data::BatchId batch, strategy::Weighting weighting) override;
  Gates& gates() override { return gates_; }
  /// Nothing is evaluated: the loop evaluates by itself.
  Task<strategy::Evaluation> evaluate(int part, int parts) override;
  /// A turn is not taken again.
  void commit() override {}
  void drop() override {}

  Task<bool> has_next() override;
  std::unique_ptr<optim::Optimiser> make_optimiser() override { return options_.make_optimiser(); }
  double rate() const override { return rate_; }

 private:
  void tell();

  collective::Communicator comm_;
  const strategy::Layout& layout_;
  LoopNumbers numbers_;
  LoopLearnerOptions options_;
  Gates gates_;
  Queue<Turn> turns_;
  std::shared_ptr<Event> news_;  // asked_ or ended_ has changed
  bool asked_ = false, ended_ = false;
  std::exception_ptr error_;
  std::uint32_t samples_ = 1;  // of the present turn
  double learnt_ = 0;          // samples of all turns
  double rate_;
};

}  // namespace ripieno::loop
