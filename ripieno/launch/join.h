// Joins the other workers of a job, which the environment describes (placement.h), through a transport
// (transport/transports.h): whoever started them, Ripieno's launcher or mpirun, torchrun, srun. A process without a
// launcher is a job of one and needs no network.
#pragma once

#include <string>

#include "ripieno/launch/placement.h"
#include "ripieno/transport/cluster.h"
#include "ripieno/transport/shaped.h"

namespace ripieno::launch {

struct JoinOptions {
  std::string transport = "tcp";                ///< the name of a transport of real time
  std::string interface;                        ///< at which this worker listens, such as "eth0"; "": as Placement says
  std::uint64_t digest = 0;                     ///< of everything that all workers must agree on, such as the recipe
  std::uint64_t seed = 0;                       ///< of the runtime's random numbers
  Duration timeout = std::chrono::minutes(30);  ///< of any wait for a peer
  /// Use shared memory where workers can and Placement allows it. The same on all workers.
  bool shared_memory = true;
  Duration meeting = std::chrono::seconds(60);  ///< until all workers have come
  transport::Shape shape;                       ///< slows down this worker's sends
};

/// Errors: those of meet() (rendezvous/meet.h), of OpenRendezvous, of the transport, and of make_room_for_descriptors()
/// (descriptors.h); Error(usage) if there is no such interface, or RIPIENO_LISTEN names another, or the processes
/// cannot meet (Placement::cannot_meet), or there is no such transport, or it is of virtual time, or a variable of the
/// environment has no effect with it.
transport::Cluster join(const Placement& place = placement(), const JoinOptions& options = {});

}  // namespace ripieno::launch

namespace ripieno {
using launch::join, launch::JoinOptions;  // own loops need no rooms
}
