// Joins the other workers of a job, as the environment says (placement.h), through a transport of the table
// (transport/transports.h); a process that nobody launched is a job of one, which needs no network.
#pragma once

#include <string>

#include "ripieno/launch/placement.h"
#include "ripieno/transport/cluster.h"
#include "ripieno/transport/shaped.h"

namespace ripieno::launch {

struct JoinOptions {
  std::string transport = "tcp";                ///< its name in the table; one of real time
  std::uint64_t digest = 0;                     ///< of what all workers must agree on, such as the recipe
  std::uint64_t seed = 0;                       ///< of the runtime's random numbers
  Duration timeout = std::chrono::minutes(30);  ///< of any wait for a peer
  /// Between workers that can, where Placement allows it too. The same on all workers.
  bool shared_memory = true;
  Duration meeting = std::chrono::seconds(60);  ///< until all workers have come
  transport::Shape shape;                       ///< of what this worker sends, where it is slower than its way is
};

/// Errors: those of meet() (membership/meet.h), of the transport, refuse_foreign_world() (placement.h) and
/// make_room_for_descriptors() (descriptors.h); Error(usage) where there is no such transport, or it is of virtual
/// time.
transport::Cluster join(const Placement& place = placement(), const JoinOptions& options = {});

}  // namespace ripieno::launch

namespace ripieno {
using launch::join, launch::JoinOptions;  // own loops need no rooms
}
