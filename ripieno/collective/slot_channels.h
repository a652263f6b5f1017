// The channels of an averager's slots. The first average over a communicator takes them all at once, so that slots may
// be in flight in any order.
#pragma once

#include <optional>

#include "ripieno/collective/communicator.h"

namespace ripieno::collective {

class SlotChannels {
 public:
  explicit SlotChannels(std::size_t slots) : slots_(static_cast<std::uint32_t>(slots)) {}

  std::uint32_t of(const Communicator& comm, std::size_t slot) {
    if (!first_ || scope_ != comm.scope()) {
      first_ = comm.take_channels(slots_);
      scope_ = comm.scope();
    }
    return *first_ + static_cast<std::uint32_t>(slot);
  }

 private:
  const std::uint32_t slots_;
  transport::Scope scope_ = 0;
  std::optional<std::uint32_t> first_;
};

}  // namespace ripieno::collective
