// Aborts at random times among ranks of a virtual cluster whose strategies take broken-off steps again: to test that
// attempts at steps can be dropped.
#pragma once

#include <memory>
#include <vector>

#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/core/random.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::testing {

class Interruptions {
 public:
  /// `cluster` outlives it.
  explicit Interruptions(collective::VirtualCluster& cluster)
      : cluster_(cluster),
        comms_(static_cast<std::size_t>(cluster.size())),
        trained_(static_cast<std::size_t>(cluster.size())) {}

  /// Makes the rank's workplace regroup. Call it for the ranks in order.
  void let(int rank, strategy::Workplace& place) {
    comms_[static_cast<std::size_t>(rank)] = place.comm;
    place.regroup = [this, rank](collective::Communicator ended) { return renew(rank, ended); };
  }

  /// The rank has trained to the end and begins no more aborts.
  void has_trained(int rank) { trained_[static_cast<std::size_t>(rank)] = true; }

  /// Schedules aborts. A random rank begins each at a random time between the two, while all train; it reaches the
  /// others over the network.
  void schedule(std::uint64_t seed, int times, Duration from, Duration until) {
    Random random(seed, 0);
    for (int i = 0; i < times; ++i) {
      const auto rank = static_cast<int>(random.below(comms_.size()));
      schedule(rank, from + from_seconds(seconds(until - from) * random.uniform(0, 1)));
    }
  }

  /// Schedules one abort, begun by that rank.
  void schedule(int rank, Duration when) {
    cluster_.runtime().call_at(when, [this, rank] { begin(rank); });
  }

  /// Begins an abort now, by that rank.
  void begin(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const auto error = std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", rank, " was interrupted")));
    if (!trained_[at]) comms_[at]->abort(error);
  }

  int recovered = 0;  ///< recoveries, over all ranks

 private:
  Task<collective::Communicator> renew(int rank, collective::Communicator ended) {
    ++recovered;
    comms_[static_cast<std::size_t>(rank)] = ended.renewed();
    co_return *comms_[static_cast<std::size_t>(rank)];
  }

  collective::VirtualCluster& cluster_;
  std::vector<std::optional<collective::Communicator>> comms_;  // each rank's present one
  std::vector<bool> trained_;
};

}  // namespace ripieno::testing
