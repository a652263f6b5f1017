// How long a thread spins before it blocks, from what wake-ups take on this machine: 1 µs on one, 40 µs on another. A
// spin of twice a wake-up sees the answer of a peer that had to be woken for it, so that two ranks which ask each other
// again and again stay awake both, however they began; with a shorter one they may take turns in sleeping for ever. And
// it costs at most twice what blocking would have.
#pragma once

#include <array>

#include "ripieno/core/timeline.h"

namespace ripieno {

/// What ended a thread's sleep.
struct WakeUp {
  Duration took;             ///< from the peer's signal to this thread
  bool shares_core = false;  ///< the peer ran on the core that this thread had left: it may have needed it
};

class SpinTime {
 public:
  static constexpr Duration shortest = std::chrono::microseconds(50), longest = std::chrono::milliseconds(1);

  Duration get() const { return time_; }
  /// Takes a wake-up into account, unless it cannot be believed or tells of a core that was not free: below 0 (the
  /// processes' clocks differ), or above `longest`.
  void add(Duration wake_up);

 private:
  static constexpr std::size_t kept = 15;
  static constexpr Duration presumed = std::chrono::microseconds(50);  ///< a wake-up, before any was seen

  std::array<Duration, kept> last_{};
  std::size_t seen_ = 0;
  Duration time_ = 2 * presumed;
};

}  // namespace ripieno
