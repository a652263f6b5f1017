// The steps of a plan one after the other: which epoch, which batch, how far training is, and what ends.
//
//   for (Steps at(plan, learner.steps_per_epoch()); at.more(); at.next()) ...
#pragma once

#include "ripieno/strategy/strategy.h"

namespace ripieno {

class Steps {
 public:
  Steps(const Plan& plan, std::uint32_t per_epoch)
      : epochs_(plan.epochs), max_(plan.max_steps), per_epoch_(per_epoch), epoch_(plan.first_epoch),
        step_(std::uint64_t{plan.first_epoch} * per_epoch) {}

  bool more() const { return epoch_ < epochs_ && !(max_ > 0 && step_ >= max_); }
  void next() {
    ++step_;
    if (++k_ == per_epoch_) {
      k_ = 0;
      ++epoch_;
    }
  }

  std::uint32_t epoch() const { return epoch_; }
  /// From 0, over the whole run.
  std::uint64_t step() const { return step_; }
  BatchId batch() const { return {epoch_, k_}; }
  /// Whole epochs and the fraction of this one, before this step: what learning rates go by.
  double epochs_done() const { return epoch_ + static_cast<double>(k_) / per_epoch_; }
  /// Whether this step is the epoch's last, the plan's last (which ends an epoch too, if need be early), and whether the
  /// plan ends early, within an epoch or not.
  bool ends_epoch() const { return k_ + 1 == per_epoch_ || ends(); }
  bool ends() const { return (k_ + 1 == per_epoch_ && epoch_ + 1 == epochs_) || ends_early(); }
  bool ends_early() const { return max_ > 0 && step_ + 1 >= max_; }

 private:
  std::uint32_t epochs_;
  std::uint64_t max_;
  std::uint32_t per_epoch_, epoch_, k_ = 0;
  std::uint64_t step_;
};

}  // namespace ripieno
