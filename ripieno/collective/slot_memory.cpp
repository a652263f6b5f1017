#include "ripieno/collective/slot_memory.h"

namespace ripieno::collective {

Random rounding_draws(std::uint64_t seed, int rank, std::uint32_t slot, std::int64_t call) {
  const std::uint64_t of_rank = Random(seed, static_cast<std::uint64_t>(rank)).next();
  const std::uint64_t of_slot = Random(of_rank, slot).next();
  return Random(of_slot, static_cast<std::uint64_t>(call));
}

SlotMemory::SlotMemory(const AveragerOptions& options, const std::vector<Slot>& slots, DType type)
    : seed_(options.seed), calls_(slots.size()) {
  for (const Slot& slot : slots) feedback_.emplace_back(slot.elements, type, options.codec.error_feedback);
}

Random SlotMemory::begin(int rank, std::size_t slot) {
  feedback_[slot].begin();
  return rounding_draws(seed_, rank, static_cast<std::uint32_t>(slot), calls_[slot]);
}

void SlotMemory::commit(std::size_t slot) {
  feedback_[slot].commit();
  ++calls_[slot];
}

void SlotMemory::visit(StateVisitor& visitor) {
  for (std::size_t slot = 0; slot < feedback_.size(); ++slot) {
    const std::string name = text("averager.slot", slot);
    feedback_[slot].visit(visitor, name + ".residual");
    visitor.number(name + ".calls", calls_[slot]);
  }
}

}  // namespace ripieno::collective
