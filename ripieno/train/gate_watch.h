// Makes the thread of a forward pass wait at gates, before any operator that takes memory of a bucket whose gate is
// closed. Works for any module, since it sees operators, not layers.
#pragma once

#include <functional>
#include <vector>

#include "ripieno/collective/schedule.h"
#include "ripieno/core/gates.h"
#include "ripieno/core/span.h"
#include "ripieno/train/torch_internals.h"

namespace ripieno::train {

/// Watches the thread that constructs it, which must also destroy it; one at a time.
class GateWatch {
 public:
  /// `buckets` partition the flat `parameters`; gate i is bucket i's.
  GateWatch(NumberSpan parameters, const std::vector<Range>& buckets, Gates& gates);

  /// Waits for the gates of the buckets that contain these bytes, if they are parameters.
  void wait_for(ConstBytes bytes);
  void wait_for_all();
  /// Called for each gate that was closed, after the wait; and for each gate before the pass uses its bucket.
  std::function<void(std::size_t gate, Duration took)> on_wait;
  std::function<void(std::size_t gate)> on_passed;
  /// Time spent waiting so far.
  Duration waited() const { return waited_; }

 private:
  void wait(std::size_t gate);

  NumberSpan parameters_;
  std::vector<std::pair<std::size_t, std::size_t>> starts_;  // by bucket: its first element and its gate; ascending
  Gates& gates_;
  std::vector<bool> passed_;  // gates that this watch has waited for; they stay open
  Duration waited_{0};
  OperatorWatch operators_;  // last member: its callback uses the others
};

}  // namespace ripieno::train
