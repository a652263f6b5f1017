// The channels of an averager's slots. The first average over a communicator takes them all at once, so that slots may
// be in flight in any order.
#pragma once

#include <optional>

#include "ripieno/collective/communicator.h"

namespace ripieno::collective {

class SlotChannels {
 public:
  /// `for_engine`: for the route native.
  explicit SlotChannels(std::size_t slots, bool for_engine = false)
      : slots_(static_cast<std::uint32_t>(slots)), for_engine_(for_engine) {}

  std::uint32_t of(const Communicator& comm, std::size_t slot) {
    if (!first_ || scope_ != comm.scope()) {
      first_ = comm.take_channels(slots_);
      scope_ = comm.scope();
      const bool opens =
          for_engine_ && comm.find_engine(transport::native_route, transport::Collective::all_reduce, DType::fp32,
                                          comm.channel(*first_, observe::Purpose::exchange));
      for (std::uint32_t i = 0; opens && i < slots_; ++i)
        comm.endpoint().open_engine(comm.channel(*first_ + i, observe::Purpose::exchange));
    }
    return *first_ + static_cast<std::uint32_t>(slot);
  }

 private:
  const std::uint32_t slots_;
  const bool for_engine_;
  transport::Scope scope_ = 0;
  std::optional<std::uint32_t> first_;
};

}  // namespace ripieno::collective
