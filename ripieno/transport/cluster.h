// A worker's place among the others: the runtime that drives it and the endpoint that reaches them.
#pragma once

#include <functional>
#include <memory>

#include "ripieno/transport/counted.h"

namespace ripieno {

struct Cluster {
  std::unique_ptr<Runtime> runtime;  // first: it outlives all that holds its handlers
  std::shared_ptr<CountedEndpoint> endpoint;
  int models = 0;  ///< made parallel over it so far (train/parallel.h)
  /// Is told of an Error(peer) that reaches an own loop: should this worker end because of it, it is not the cause. May be empty.
  std::function<void(const Error&)> on_peer_error = {};
};

}  // namespace ripieno
