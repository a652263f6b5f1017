// Ranks for tests: P coroutines on one simulated network, in virtual time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ripieno/collective/group.h"
#include "ripieno/core/runtime.h"
#include "ripieno/transport/counted.h"
#include "ripieno/transport/simulated.h"

namespace ripieno::testing {

class VirtualCluster {
 public:
  explicit VirtualCluster(int ranks, SimulatedOptions options = {}, std::uint64_t seed = 0)
      : runtime_(virtual_runtime(seed)), network_(*runtime_, ranks, options) {
    for (int rank = 0; rank < ranks; ++rank) {
      endpoints_.push_back(std::make_shared<CountedEndpoint>(network_.endpoint(rank)));
    }
  }

  int size() const { return static_cast<int>(endpoints_.size()); }
  Runtime& runtime() { return *runtime_; }
  CountedEndpoint& endpoint(int rank) { return *endpoints_[rank]; }
  Group group(int rank) { return Group(endpoints_[rank]); }
  const Ledger& ledger(int rank) const { return endpoints_[rank]->ledger(); }

  /// Runs `body(group of rank r)` for every rank; returns the virtual time that it took.
  Duration run(const std::function<Task<>(Group)>& body) {
    const Duration start = runtime_->now();
    for (int rank = 0; rank < size(); ++rank) runtime_->spawn("rank " + std::to_string(rank), body(group(rank)));
    runtime_->run();
    return runtime_->now() - start;
  }

 private:
  std::unique_ptr<Runtime> runtime_;  // first: it outlives all that holds its handlers
  SimulatedNetwork network_;
  std::vector<std::shared_ptr<CountedEndpoint>> endpoints_;
};

}  // namespace ripieno::testing
