// Makes a thread's work last longer than it takes, as on a slower machine: a real clock's counterpart of what virtual
// time charges.
#pragma once

#include <chrono>
#include <thread>

#include "ripieno/core/runtime.h"

namespace ripieno::train {

class Slowdown {
 public:
  /// `factor`: times that the work takes; 1: nothing is done.
  explicit Slowdown(double factor) : factor_(factor), since_(Clock::now()) {}

  /// Waits until the work since the last call has lasted `factor` times as long. `waited`: how much of it was waiting
  /// already.
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
