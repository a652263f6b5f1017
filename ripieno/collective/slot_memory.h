// The state of an encoding averager for each slot: its residual, and the number of committed calls, which keys random
// rounding.
#pragma once

#include <cstdint>
#include <vector>

#include "ripieno/codec/error_feedback.h"
#include "ripieno/collective/averager.h"
#include "ripieno/core/random.h"

namespace ripieno::collective {

/// The random stream for rounding: a separate one for every rank, slot and call.
Random rounding_draws(std::uint64_t seed, int rank, std::uint32_t slot, std::int64_t call);

class SlotMemory {
 public:
  SlotMemory(const AveragerOptions& options, const std::vector<Slot>& slots, DType type);

  codec::ErrorFeedback& feedback(std::size_t slot) { return feedback_[slot]; }

  /// Begins a slot's next call and drops what an earlier call has not committed. Returns the call's rounding_draws().
  Random begin(int rank, std::size_t slot);
  /// Commits the call, with the residual that it has staged in feedback().
  void commit(std::size_t slot);

  /// Shows averager.slotN.residual and .calls.
  void visit(StateVisitor& visitor);

 private:
  std::uint64_t seed_;
  std::vector<codec::ErrorFeedback> feedback_;  // by slot
  std::vector<std::int64_t> calls_;             // by slot: committed calls
};

}  // namespace ripieno::collective
