// The network of all ranks of a job that runs in one process, in virtual time: what a transport of virtual time makes
// (transports.h).
#pragma once

#include <memory>

#include "ripieno/transport/endpoint.h"

namespace ripieno::transport {

class Network {
 public:
  virtual ~Network() = default;

  virtual std::shared_ptr<Endpoint> endpoint(int rank) = 0;

  /// `rank` dies now; a second death is none. Its coroutine goes on until its next operation fails.
  virtual void kill(int rank) = 0;
  /// From kill() on, before others know of it.
  virtual bool dead(int rank) const = 0;
};

}  // namespace ripieno::transport
