// Notices a closure that uses gradients which are on their way to the other workers already: clipping them there, say.
// Works for any closure, for it sees operators.
#pragma once

#include <atomic>
#include <vector>

#include "ripieno/core/range.h"
#include "ripieno/core/span.h"
#include "ripieno/train/torch_internals.h"

namespace ripieno::train {

/// Watches the calling thread from its making to its end, both on that thread; one at a time.
class GradientWatch {
 public:
  /// `gradients` lie where they are computed; `buckets` are ranges of them.
  GradientWatch(NumberSpan gradients, const std::vector<Range>& buckets);

  /// The bucket is on its way. On any thread.
  void announced(std::size_t bucket) { announced_[bucket].store(true, std::memory_order_relaxed); }
  /// Whether an operator took a gradient that was on its way.
  bool was_used() const { return used_; }

 private:
  void look_at(const std::byte* address);

  NumberSpan gradients_;
  const std::vector<Range>& buckets_;
  std::vector<std::atomic<bool>> announced_;
  bool used_ = false;
  OperatorWatch operators_;  // the last: it looks at the others
};

}  // namespace ripieno::train
