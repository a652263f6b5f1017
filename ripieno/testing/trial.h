// Trial: a strategy at work in virtual time, on a linear learner each: what its conformance is checked on, and a quick
// way to try one of your own. The strategy may be in no registry.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/strategy/registry.h"
#include "ripieno/testing/interruptions.h"
#include "ripieno/testing/linear_learner.h"
#include "ripieno/testing/saved_state.h"

namespace ripieno::testing {

struct Trial {
  /// `global_batch` samples a step over all workers. `info` outlives the trial.
  Trial(const strategy::StrategyInfo& info, int workers, strategy::Plan plan, LinearOptions learner = {},
        std::uint32_t global_batch = 16, transport::SimulatedOptions network = {});

  /// Makes learners, recorders and strategies. Called by run(), or before it where what it makes is to be changed.
  /// Throws Error(usage) where the strategy is refused.
  void make();

  /// Before make(): aborts at random times (interruptions.h), from when all ranks of `whole`, which is not interrupted
  /// and has run, had begun to train until it had taken its time.
  void interrupt(std::uint64_t seed, int times, const Trial& whole);

  /// Trains. Ranks may die on the way (cluster.kill_at).
  void run();

  /// Saves what a rank keeps, its learner's numbers and what a checkpoint holds of its strategy, or puts it back.
  void walk(int rank, SavedState& state, bool restoring);
  SavedState state(int rank);

  /// The consensus as `rank` holds it, once it has run.
  std::vector<double> weights(int rank = 0);

  /// What closed forms go by, once it has run.
  strategy::Workload workload() const;

  /// The first rank that learns.
  int first_worker() const { return info.servers(plan); }

  const strategy::StrategyInfo& info;
  strategy::Plan plan;
  int workers;
  int per_node = 1;
  collective::VirtualCluster cluster;
  std::vector<LinearOptions> options;  ///< of each rank; may be changed before make()
  std::vector<std::unique_ptr<LinearLearner>> learners;
  std::vector<std::unique_ptr<observe::Recorder>> recorders;
  std::vector<std::unique_ptr<strategy::Strategy>> strategies;
  std::function<void(int rank, const observe::StepRecord&)> on_step;
  std::function<void(int rank, std::uint32_t epoch)> checkpoint;  ///< Workplace::checkpoint, where set before make()
  Duration took{0};
  std::optional<Interruptions> interruptions;
};

/// What a rank of such a trial learns from: the workers share each batch or the data set as the strategy uses it.
LinearOptions share_of(const strategy::StrategyInfo& info, const strategy::Plan& plan, int workers, int rank,
                       LinearOptions learner, std::uint32_t global_batch);

/// What one worker alone ends with, by synchronous SGD.
std::vector<double> train_alone(const strategy::Plan& plan, LinearOptions learner = {}, std::uint32_t batch = 16);

/// Euclidean.
double distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ripieno::testing
