// Makes a thread's work last longer, as on a slower machine: the real-time counterpart of the costs charged in virtual
// time.
#pragma once

#include <chrono>
#include <thread>

#include "ripieno/core/runtime.h"

namespace ripieno::train {

class Slowdown {
 public:
  /// The work takes `factor` times as long; 1: no slowdown.
  explicit Slowdown(double factor) : factor_(factor), since_(Clock::now()) {}

  /// Waits until the work since the last call has lasted `factor` times as long. `waited`: the part of that time which
  /// was waiting, and is not stretched.
  void catch_up(Duration waited = Duration{0}) {
    if (factor_ <= 1) return;
    std::this_thread::sleep_for((Clock::now() - since_ - waited) * (factor_ - 1));
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  double factor_;
  Clock::time_point since_;
};

}  // namespace ripieno::train
