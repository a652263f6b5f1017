#include "ripieno/testing/retaken.h"

#include <cmath>
#include <map>

#include "ripieno/testing/trial.h"

namespace ripieno::testing {

namespace {

LinearOptions learner_with(bool loss_scale) {
  return {.buffers = 3,
          .running_means = true,
          .dropout = 0.3,
          .sample_cost = Duration(200'000'000),
          .loss_scale = loss_scale};
}

/// "rank 1 has another NAME"; "" if all is the same.
std::string difference(Trial& interrupted, Trial& whole) {
  for (int rank = 0; rank < whole.cluster.size(); ++rank) {
    const std::string what = interrupted.state(rank).difference(whole.state(rank));
    if (!what.empty()) return text("rank ", rank, " has another ", what);
  }
  return interrupted.weights() != whole.weights() ? "the consensus is another" : "";
}

}  // namespace

std::string difference_when_retaken(const strategy::StrategyInfo& info, const strategy::Plan& plan, int workers,
                                    int runs, bool loss_scale) {
  int recovered = 0;
  for (int seed = 0; seed < runs; ++seed) {
    Random random(static_cast<std::uint64_t>(seed), 1);
    transport::SimulatedOptions network;
    network.link.latency = from_seconds(std::pow(10, random.uniform(-6, -1.5)));
    const LinearOptions learner = learner_with(loss_scale);
    Trial whole(info, workers, plan, learner, 16, network), interrupted(info, workers, plan, learner, 16, network);
    whole.run();
    interrupted.interrupt(static_cast<std::uint64_t>(seed), 1 + seed % 4, whole);
    interrupted.run();
    recovered += interrupted.interruptions->recovered;
    const std::string what = difference(interrupted, whole);
    if (!what.empty()) return text("run ", seed, ": ", what);
  }
  return workers > 1 && recovered < runs ? text("only ", recovered, " interruptions in ", runs, " runs") : "";
}

std::string difference_when_recovery_is_aborted(const strategy::StrategyInfo& info, const strategy::Plan& plan,
                                                int workers, bool loss_scale, int every_ms) {
  transport::SimulatedOptions network;
  network.link.latency = std::chrono::milliseconds(1);
  network.link.per_byte = network.link.latency / 100;  // a model's message takes as long
  const LinearOptions learner = learner_with(loss_scale);
  Trial whole(info, workers, plan, learner, 16, network);
  std::map<std::pair<bool, std::uint64_t>, Duration> committed;  // by the first rank that did: each epoch, each step
  const auto commit = [&](bool is_step, std::uint64_t number) {
    committed.try_emplace({is_step, number}, whole.cluster.runtime().now());
  };
  whole.on_step = [&](int, const observe::StepRecord& record) { commit(true, record.step); };
  whole.checkpoint = [&](int, std::uint32_t epoch) { commit(false, epoch); };
  whole.run();
  int recovered = 0, runs = 0;
  for (const auto& [what, when] : committed) {
    const auto [is_step, number] = what;
    if (is_step && number % 10 != 7) continue;
    for (int after = 0; after < 2; ++after) {
      for (int later = 1; later <= 24; later += every_ms, ++runs) {
        Trial interrupted(info, workers, plan, learner, 16, network);
        interrupted.interrupt(0, 0, whole);
        const Duration first = when + after * network.link.latency + Duration(1);
        interrupted.interruptions->schedule(runs % workers, first);
        interrupted.interruptions->schedule(runs / workers % workers, first + later * network.link.latency);
        interrupted.run();
        recovered += interrupted.interruptions->recovered;
        const std::string differs = difference(interrupted, whole);
        if (!differs.empty()) {
          return text("aborts ", after, " ms and ", later, " ms after ", is_step ? "step " : "epoch ", number, ": ",
                      differs);
        }
      }
    }
  }
  return recovered < runs ? text("only ", recovered, " interruptions in ", runs, " runs") : "";
}

}  // namespace ripieno::testing
