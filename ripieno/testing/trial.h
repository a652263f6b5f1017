// Trial: runs a strategy in virtual time, with a linear learner on each rank. Conformance checks use it, and it is a
// quick way to try your own strategy, which need not be registered.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/strategy/pauses.h"
#include "ripieno/strategy/registry.h"
#include "ripieno/testing/interruptions.h"
#include "ripieno/testing/linear_learner.h"
#include "ripieno/testing/saved_state.h"

namespace ripieno::testing {

struct Trial {
  /// `global_batch` samples per step over all workers. `info` must outlive the trial.
  Trial(const strategy::StrategyInfo& info, int workers, strategy::Plan plan, LinearOptions learner = {},
        std::uint32_t global_batch = 16, transport::SimulatedOptions network = {});

  /// Makes learners, recorders and strategies. run() calls it; call it before run() to change what it makes. Throws
  /// Error(usage) if the strategy is refused.
  void make();

  /// Call it before make(): schedules aborts at random times (interruptions.h) within the time in which all ranks of
  /// `whole` were training; `whole` has run without aborts.
  void interrupt(std::uint64_t seed, int times, const Trial& whole);

  /// Trains. Ranks may die meanwhile (cluster.kill_at).
  void run();

  /// Saves a rank's state (its learner's numbers and its strategy's checkpoint), or restores it.
  void walk(int rank, SavedState& state, bool restoring);
  SavedState state(int rank);

  /// After run(): the consensus on `rank`.
  std::vector<double> weights(int rank = 0);

  /// After run(): the workload for closed forms.
  strategy::Workload workload() const;

  /// The first rank that trains.
  int first_worker() const { return info.servers(plan); }

  const strategy::StrategyInfo& info;
  strategy::Plan plan;
  int workers;
  int per_node = 1;
  collective::VirtualCluster cluster;
  std::vector<LinearOptions> options;  ///< of each rank; may be changed before make()
  std::vector<std::unique_ptr<LinearLearner>> learners;
  std::vector<std::unique_ptr<observe::Recorder>> recorders;
  std::vector<std::unique_ptr<strategy::Pauses>> pauses;  ///< of each rank, if `save` is set
  std::vector<std::unique_ptr<strategy::Strategy>> strategies;
  std::function<void(int rank, const observe::StepRecord&)> on_step;
  std::function<void(int rank, std::uint32_t epoch)> checkpoint;  ///< Workplace::checkpoint, where set before make()
  std::function<void(int rank, strategy::Point)> save;  ///< at pauses, which there are where it is set before make()
  Duration took{0};
  std::optional<Interruptions> interruptions;
};

/// The learner options of a rank in a trial: workers divide each batch or the data set as the strategy requires.
LinearOptions share_of(const strategy::StrategyInfo& info, const strategy::Plan& plan, int workers, int rank,
                       LinearOptions learner, std::uint32_t global_batch);

/// The final weights of one worker alone, by synchronous SGD.
std::vector<double> train_alone(const strategy::Plan& plan, LinearOptions learner = {}, std::uint32_t batch = 16);

/// The Euclidean distance.
double distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ripieno::testing
