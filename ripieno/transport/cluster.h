// A worker's place among the others: the runtime that drives it and the endpoint that reaches them.
#pragma once

#include <memory>
#include <utility>

#include "ripieno/transport/counted.h"

namespace ripieno {

struct Cluster {
  Cluster() = default;
  Cluster(Cluster&&) = default;
  Cluster& operator=(Cluster&& other) noexcept {
    std::swap(runtime, other.runtime);
    std::swap(endpoint, other.endpoint);
    return *this;
  }
  /// A rank that is done may leave at once: what it sent last arrives. After an exception nothing is waited for.
  ~Cluster();

  std::unique_ptr<Runtime> runtime;  // first: it outlives all that holds its handlers
  std::shared_ptr<CountedEndpoint> endpoint;
};

}  // namespace ripieno
