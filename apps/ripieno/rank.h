// One rank's part of a run, wherever it runs: in a process of its own over tcp, or beside the others in virtual time.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "apps/ripieno/rank_progress.h"
#include "apps/ripieno/run_folder.h"
#include "ripieno/model/zoo.h"
#include "ripieno/report/summary.h"
#include "ripieno/strategy/compute_profile.h"
#include "ripieno/transport/counted.h"

namespace ripieno::program {

struct RankTask {
  Settings settings;
  RunFolder folder;
  std::optional<std::filesystem::path> resume;  ///< the run folder to go on from
  TellLauncher report;
  /// In virtual time: makes the profile that a replay charges, by the real clock. Else ranks make it together.
  std::function<strategy::ComputeProfile(const Settings&)> profile = {};
};

/// Trains, writes this rank's files (rank 0 the model too) and puts its summary in `*summary`. Throws Error(mismatch)
/// where ranks have not come to the same settings.
Task<> run_rank(RankTask task, const model::Zoo* zoo, std::shared_ptr<transport::CountedEndpoint> endpoint,
                report::Summary* summary);

}  // namespace ripieno::program
