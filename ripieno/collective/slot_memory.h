// What an averager that encodes keeps of each slot from one call to the next: residuals, and how many calls were
// committed, by which random rounding goes.
#pragma once

#include <cstdint>
#include <vector>

#include "ripieno/codec/error_feedback.h"
#include "ripieno/collective/averager.h"
#include "ripieno/core/random.h"

namespace ripieno::collective {

/// What random rounding draws from: a stream of its own for every rank, slot and call.
Random rounding_draws(std::uint64_t seed, int rank, std::uint32_t slot, std::int64_t call);

class SlotMemory {
 public:
  SlotMemory(const AveragerOptions& options, const std::vector<Slot>& slots, DType type);

  codec::ErrorFeedback& feedback(std::size_t slot) { return feedback_[slot]; }

  /// A slot's next call begins, and forgets what one before it has not committed: rounding_draws() of it.
  Random begin(int rank, std::size_t slot);
  /// The call is committed, with what it has left in feedback().
  void commit(std::size_t slot);

  /// As averager.slotN.residual and .calls.
  void visit(StateVisitor& visitor);

 private:
  std::uint64_t seed_;
  std::vector<codec::ErrorFeedback> feedback_;  // a slot
  std::vector<std::int64_t> calls_;             // a slot; committed
};

}  // namespace ripieno::collective
