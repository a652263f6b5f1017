// A worker's connection to the others: its runtime and its endpoint.
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
    std::swap(on_loss, other.on_loss);
    std::swap(progress_, other.progress_);
    return *this;
  }
  /// Waits until everything that this rank has sent can be received; after an exception it waits for nothing.
  ~Cluster();

  /// Drives this worker's exchanges in the background. Made at the first call; from then on nobody else may run the
  /// runtime.
  Progress& progress();

  std::unique_ptr<Runtime> runtime;  // first member: outlives everything that holds its handlers
  std::shared_ptr<CountedEndpoint> endpoint;
  int models = 0;  ///< how many models were made parallel over it so far (train/parallel.h)
  /// Called with a loss that reaches the user's own training loop: if this worker ends because of it, another one is
  /// the cause. May be empty.
  std::function<void(const Loss&)> on_loss = {};

 private:
  std::unique_ptr<Progress> progress_;  // last member: its thread ends before what it drives
};

}  // namespace ripieno::transport
