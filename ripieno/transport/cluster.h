// A worker's place among the others: the runtime that drives it and the endpoint that reaches them.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "ripieno/core/progress.h"
#include "ripieno/transport/counted.h"

namespace ripieno::transport {

struct Cluster {
  Cluster() = default;
  Cluster(Cluster&&) = default;
  Cluster& operator=(Cluster&& other) noexcept {
    std::swap(runtime, other.runtime);
    std::swap(endpoint, other.endpoint);
    std::swap(models, other.models);
    std::swap(on_peer_error, other.on_peer_error);
    std::swap(progress_, other.progress_);
    return *this;
  }
  /// A rank that is done may leave at once: what it sent last arrives. After an exception nothing is waited for.
  ~Cluster();

  /// What moves this worker's exchanges on; made when first asked for, and then nobody else runs the runtime.
  Progress& progress();

  std::unique_ptr<Runtime> runtime;  // first: it outlives all that holds its handlers
  std::shared_ptr<CountedEndpoint> endpoint;
  int models = 0;  ///< made parallel over it so far (train/parallel.h)
  /// Is told of an Error(peer) that reaches an own loop: should this worker end because of it, it is not the cause. May
  /// be empty.
  std::function<void(const Error&)> on_peer_error = {};

 private:
  std::unique_ptr<Progress> progress_;  // last: its thread ends before what it drives
};

}  // namespace ripieno::transport
