// The ranks of a group as they have met: how they are connected, and what is in flight between them. A group that is
// reconfigured (backend.h) has one after the other.
#pragma once

#include <memory>
#include <optional>

#include "ripieno/c10d/operation_order.h"
#include "ripieno/c10d/root_check.h"
#include "ripieno/c10d/tagged_messages.h"
#include "ripieno/collective/tune.h"
#include "ripieno/transport/cluster.h"

namespace ripieno::c10d {

struct Members {
  static constexpr std::uint32_t lanes = 16;  ///< operations of one order that are in flight at once

  /// `global`: each member's rank in the job, for its launcher; empty: they are the same.
  Members(transport::Cluster joined, const std::vector<std::uint64_t>& global);

  /// What this rank has exchanged so far.
  struct Counts {
    observe::Ledger ledger;  ///< its bytes
    Duration busy{0};        ///< the time in which at least one operation was in flight
  };

  transport::Cluster cluster;
  collective::Communicator comm;
  std::optional<collective::Communicator> free_comm;  ///< no operation of c10d's uses it
  std::uint32_t free_channels = 0;
  std::uint64_t free_begun = 0;
  const std::shared_ptr<const collective::Tuning> tuning;
  const std::shared_ptr<TaggedMessages> messages;

  // Guarded by the group.
  const std::shared_ptr<OperationOrder> order;
  std::uint64_t barriers = 0;
  std::shared_ptr<Event> last_average;  ///< one after the other: an averager takes channels at its first

  // On the runtime's thread.
  const std::shared_ptr<RootCheck> roots;
  int in_flight = 0;
  Duration busy{0}, busy_since{0};  ///< before what is in flight now, and since when something is
  std::shared_ptr<Event> none_in_flight;
};

}  // namespace ripieno::c10d
