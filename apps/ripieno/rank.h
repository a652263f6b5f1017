// One rank's part of a run, in its own process over tcp, or beside the other ranks in virtual time.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "apps/ripieno/program_runs.h"
#include "apps/ripieno/rank_progress.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/model/zoo.h"
#include "ripieno/report/summary.h"
#include "ripieno/strategy/compute_profile.h"
#include "ripieno/transport/counted.h"

namespace ripieno::program {

struct RankTask {
  Settings settings;
  RunFolder folder;
  std::optional<std::filesystem::path> resume;  ///< the run folder to resume
  TellLauncher report;
  bool has_launcher = false;  ///< of ours, which listens
  int local_rank = 0;         ///< among the ranks of this host, which share its GPUs
  /// In virtual time: measures, in real time, the profile that a replay charges. Otherwise the ranks measure it
  /// together.
  std::function<strategy::ComputeProfile(const Settings&)> profile = {};
};

/// What a rank ends with.
struct RankEnd {
  report::Summary summary;
  std::optional<collective::Communicator> comm;  ///< of the ranks that have trained to the end
};

/// Trains, writes this rank's files (rank 0 also the model) and fills in `*end`. On a signal (interruption.h) all ranks
/// save at the end of a step, report {"type": "stopped", "signal": N} and throw launch::Interrupted. Throws
/// Error(mismatch) if ranks have different settings. If the strategy goes on without a lost worker, a rank over real
/// links reports {"type": "survives"} before it trains (launch/control.h).
Task<> run_rank(RankTask task, const model::Zoo* zoo, std::shared_ptr<transport::CountedEndpoint> endpoint,
                RankEnd* end);

}  // namespace ripieno::program
