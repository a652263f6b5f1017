#include "ripieno/testing/retaken.h"

#include <cmath>

#include "ripieno/testing/trial.h"

namespace ripieno::testing {

std::string difference_when_retaken(const strategy::StrategyInfo& info, const strategy::Plan& plan, int workers,
                                    int runs, bool loss_scale) {
  int recovered = 0;
  for (int seed = 0; seed < runs; ++seed) {
    Random random(static_cast<std::uint64_t>(seed), 1);
    transport::SimulatedOptions network;
    network.link.latency = from_seconds(std::pow(10, random.uniform(-6, -1.5)));
    const LinearOptions learner{.buffers = 3,
                                .running_means = true,
                                .dropout = 0.3,
                                .sample_cost = Duration(200'000'000),
                                .loss_scale = loss_scale};
    Trial whole(info, workers, plan, learner, 16, network), interrupted(info, workers, plan, learner, 16, network);
    whole.run();
    interrupted.interrupt(static_cast<std::uint64_t>(seed), 1 + seed % 4, whole);
    interrupted.run();
    recovered += interrupted.interruptions->recovered;
    for (int rank = 0; rank < whole.cluster.size(); ++rank) {
      const std::string what = interrupted.state(rank).difference(whole.state(rank));
      if (!what.empty()) return text("run ", seed, ": rank ", rank, " has another ", what);
    }
    if (interrupted.weights() != whole.weights()) return text("run ", seed, ": the consensus is another");
  }
  return workers > 1 && recovered < runs ? text("only ", recovered, " interruptions in ", runs, " runs") : "";
}

}  // namespace ripieno::testing
