// Operations of a group that match in the order of their calls, apart from those of other orders. As many are in flight at
// once as it has channels.
#pragma once

#include <memory>
#include <vector>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/async.h"

namespace ripieno::c10d {

struct OperationOrder {
  /// On the runtime's thread, and in the same order on all ranks.
  OperationOrder(const collective::Communicator& comm, std::uint32_t channels)
      : first_channel(comm.take_channels(channels)), last(channels) {}

  const std::uint32_t first_channel;
  std::uint64_t asked = 0;
  std::vector<std::shared_ptr<Event>> last;  ///< on each channel: when its latest operation is over
};

}  // namespace ripieno::c10d
