// Ranks on one simulated network, in virtual time: P coroutines, each with a counted endpoint. Runs are deterministic,
// and an exchange that would hang ends with an error that says who waits for what.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/runtime.h"
#include "ripieno/transport/counted.h"
#include "ripieno/transport/simulated/network.h"

namespace ripieno::collective {

class VirtualCluster {
 public:
  explicit VirtualCluster(int ranks, transport::SimulatedOptions options = {}, std::uint64_t seed = 0)
      : runtime_(virtual_runtime(seed)), network_(*runtime_, ranks, options) {
    for (int rank = 0; rank < ranks; ++rank) {
      endpoints_.push_back(std::make_shared<transport::CountedEndpoint>(network_.endpoint(rank)));
    }
  }

  int size() const { return static_cast<int>(endpoints_.size()); }
  Runtime& runtime() { return *runtime_; }
  transport::CountedEndpoint& endpoint(int rank) { return *endpoints_[rank]; }
  Communicator comm(int rank) { return Communicator(endpoints_[rank]); }
  observe::Ledger& ledger(int rank) { return endpoints_[rank]->ledger(); }
  const observe::Ledger& ledger(int rank) const { return endpoints_[rank]->ledger(); }
  transport::SimulatedNetwork& network() { return network_; }

  /// Kills `rank` at virtual time `when`, during run().
  void kill_at(Duration when, int rank) {
    runtime_->call_at(when, [this, rank] { network_.kill(rank); });
  }

  /// Runs `body(group of rank r)` for every rank; returns the virtual time that it took. Throws the first rank's error,
  /// or Error(internal) if all ranks left wait forever.
  Duration run(const std::function<Task<>(Communicator)>& body) {
    const Duration start = runtime_->now();
    for (int rank = 0; rank < size(); ++rank) runtime_->spawn("rank " + std::to_string(rank), body(comm(rank)));
    runtime_->run();
    return runtime_->now() - start;
  }

  /// Like run(), but ranks may die: a dead rank ends quietly with its first failing operation.
  Duration run_mortal(const std::function<Task<>(Communicator)>& body) {
    const Duration start = runtime_->now();
    for (int rank = 0; rank < size(); ++rank) {
      runtime_->spawn("rank " + std::to_string(rank), until_death(&network_, rank, body(comm(rank))));
    }
    runtime_->run();
    return runtime_->now() - start;
  }

 private:
  static Task<> until_death(transport::SimulatedNetwork* network, int rank, Task<> task) {
    try {
      co_await std::move(task);
    } catch (const Error& error) {
      if (!network->dead(rank) || error.kind() != ErrorKind::peer) throw;
    }
  }

  std::unique_ptr<Runtime> runtime_;  // first member: outlives everything that holds its handlers
  transport::SimulatedNetwork network_;
  std::vector<std::shared_ptr<transport::CountedEndpoint>> endpoints_;
};

}  // namespace ripieno::collective
