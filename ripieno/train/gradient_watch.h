// Notices a closure that uses gradients already in flight to the other workers, for example to clip them. Works for any
// closure, since it sees operators.
#pragma once

#include <atomic>
#include <vector>

#include "ripieno/core/range.h"
#include "ripieno/core/span.h"
#include "ripieno/train/torch_internals.h"

namespace ripieno::train {

/// Watches the thread that constructs it, which must also destroy it; one at a time.
class GradientWatch {
 public:
  /// `gradients` are the ones on the computing device; `buckets` are ranges of them.
  GradientWatch(NumberSpan gradients, const std::vector<Range>& buckets);

  /// Tells that the bucket is in flight. From any thread.
  void announced(std::size_t bucket) { announced_[bucket].store(true, std::memory_order_relaxed); }
  /// Whether an operator took a gradient in flight.
  bool was_used() const { return used_; }

 private:
  void look_at(const std::byte* address);

  NumberSpan gradients_;
  const std::vector<Range>& buckets_;
  std::vector<std::atomic<bool>> announced_;
  bool used_ = false;
  OperatorWatch operators_;  // last member: its callback uses the others
};

}  // namespace ripieno::train
