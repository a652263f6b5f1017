// The network between all ranks of a job that runs in one process, in virtual time. Transports of virtual time make it
// (transports.h).
#pragma once

#include <memory>

#include "ripieno/transport/endpoint.h"

namespace ripieno::transport {

class Network {
 public:
  virtual ~Network() = default;

  virtual std::shared_ptr<Endpoint> endpoint(int rank) = 0;

  /// Kills `rank` now; no effect on a dead rank. Its coroutine goes on until its next operation fails.
  virtual void kill(int rank) = 0;
  /// True from kill() on, even before others know.
  virtual bool dead(int rank) const = 0;
};

}  // namespace ripieno::transport
