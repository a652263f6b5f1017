// Mixing: what gossip and ring-passes have in common. After each of its own steps a worker replaces its parameters by
// the mean of a few workers' parameters. No worker waits for all, and the workers' parameters differ.
//
// 1. All workers start from rank 0's parameters w.
// 2. Worker r takes its optimiser's step on its gradient times (samples_r * P / samples of all P workers in this step).
// 3. It sends q_r, its parameters rounded to the wire format, and gets the q_s of a set S of m workers, itself
//    included:  w_r <- (w_r - q_r) + sum of q_s / m.
// 4. Go to 2, until the plan's epochs are done.
//
// The mean over all workers is what is trained, and it is the consensus. Every worker is in m sets, so 3 preserves the
// mean exactly, even with a narrow wire format: what rounding loses of q_r stays in w_r. Because of the weights in 2,
// the mean moves by -rate times the mean gradient over all samples, however unevenly the samples are shared out (if the
// optimiser is linear in the gradient). With a lossless wire format, workers with the same set end with the same bits;
// else they differ by the rounding.
//
// Commits: a worker's own step when its pass is over, 3 when its mean can be taken. No worker waits for all, so workers
// may be several steps apart. Where a step may be taken again (Workplace::regroup), all meet before they commit 3, so
// that a worker behind the others at an abort has staged all that it needs.
#pragma once

#include <memory>
#include <vector>

#include "ripieno/strategy/apart.h"

namespace ripieno::strategy {

class Mixing : public Apart {
 protected:
  /// For sets of at most `set` workers. Throws Error(usage) unless the plan's codec is a wire format.
  Mixing(const Plan& plan, Workplace workplace, int set);

  /// The exchange of 3, called where there are several workers: returns the q of the set, in the order in which to add
  /// them up. Empty: this worker idles.
  virtual Task<std::vector<NumberSpan>> exchange(std::uint64_t step) = 0;

  /// Room for the `i`-th q of the set, in the wire's type; the 0th is this worker's own.
  NumberSpan of_set(std::size_t i) { return set_[i]->span(); }
  /// Sends numbers in the wire's type to rank `to` while receiving as many from rank `from`.
  Task<> pass_on(const char* operation, int to, NumberSpan numbers, int from, NumberSpan into);

 private:
  Task<> attempt(TrainingStep step, StepResult* result) override;
  void commit(TrainingStep step) override;
  void regrouped() override { take_channel(); }
  Task<bool> hand_over(int from, bool behind, BrokenOff what) override;
  void take_channel() { channel_ = place_.comm.channel(place_.comm.take_channels(), observe::Purpose::exchange); }
  void take_mean();

  std::vector<std::unique_ptr<numeric::Numbers>> set_;
  std::vector<NumberSpan> staged_;  // the q whose mean commit() takes
  numeric::Numbers mean_, lost_;
  transport::Channel channel_;  // of pass_on()
};

/// 2: a worker's own step, on its gradient times (its samples * P / samples of all P workers).
Task<> weighted_step(OwnSteps* steps, TrainingStep step, int workers, StepResult* result);

/// The type of a model's numbers on the wire. Throws Error(usage) where the plan's codec is no wire format.
DType wire_type(const Plan& plan, DType native);

}  // namespace ripieno::strategy
