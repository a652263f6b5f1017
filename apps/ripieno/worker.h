// One rank's part of a run, wherever it runs: in a process of its own over tcp, or beside the others in virtual time.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "apps/ripieno/run_folder.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/launch/control.h"
#include "ripieno/launch/placement.h"
#include "ripieno/model/zoo.h"
#include "ripieno/report/summary.h"
#include "ripieno/strategy/compute_profile.h"
#include "ripieno/transport/counted.h"

namespace ripieno {

struct RankTask {
  Settings settings;
  RunFolder folder;
  std::optional<std::filesystem::path> resume;  ///< the run folder to go on from
  /// Told of progress: {"type": "progress" | "epoch" | "note" | "not_finite", ...}.
  std::function<void(const nlohmann::json&)> report;
  /// In virtual time: makes the profile that a replay charges, by the real clock. Else ranks make it together.
  std::function<ComputeProfile(const Settings&)> profile = {};
};

/// Trains, writes this rank's files (rank 0 the model too) and puts its summary in `*summary`.
Task<> run_rank(RankTask task, const Zoo* zoo, std::shared_ptr<CountedEndpoint> endpoint, Summary* summary);

/// Thrown by a rank in place of an error that its launcher was told of and reports, so that it is printed once.
struct Reported {
  ErrorKind kind;
};

/// Calls `part`, a rank's part of a job; tells the launcher why it fails. Throws Reported where a launcher listens, else
/// the error itself.
void run_part(Control& control, const std::function<void()>& part);

/// The `worker` command: this process is one rank of a job that a launcher started.
void run_worker(const std::filesystem::path& folder, const std::string& resume, const Zoo& zoo);

}  // namespace ripieno
