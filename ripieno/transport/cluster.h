// A worker's place among the others: the runtime that drives it and the endpoint that reaches them.
#pragma once

#include <memory>

#include "ripieno/transport/counted.h"

namespace ripieno {

struct Cluster {
  std::unique_ptr<Runtime> runtime;  // first: it outlives all that holds its handlers
  std::shared_ptr<CountedEndpoint> endpoint;
};

}  // namespace ripieno
