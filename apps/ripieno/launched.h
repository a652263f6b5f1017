// `ripieno train` as one rank of a job whose processes another launcher has started: mpirun, torchrun, srun, or a user
// who sets the variables (ripieno/launch/placement.h). Rank 0 does what Ripieno's own launcher would.
#pragma once

#include <functional>
#include <optional>

#include "apps/ripieno/rank_progress.h"
#include "apps/ripieno/train.h"
#include "ripieno/launch/control.h"
#include "ripieno/launch/placement.h"

namespace ripieno::program {

/// Takes as many workers as make the job's ranks as many as the processes, whatever a recipe says; the command line may
/// say it, too. Error(usage) if the job needs another number of processes, or one process alone (virtual time, a lab).
/// Of a process that a launcher has started alone: one worker, and says so, unless the command line asks for more,
/// which it then starts itself; not so if the launcher is ours.
void fit_to_world(const launch::Placement& place, Settings* settings);

/// For a command that would start `ranks` processes itself: Error(usage) if those of the transport, which the user set
/// by `setting`, come from a launcher of its own. `instead`: what else the user can do.
void check_can_start(int ranks, std::string_view transport, const std::string& setting, std::string_view instead);

/// Calls `part`, this rank's part of the job. A launcher that listens is told of its errors (run_part()). Else they
/// begin with the rank; torchrun is told of them, too.
void as_rank(int rank, launch::Control& control, const std::function<void()>& part);

/// All processes call it, with the same settings. `tell`: of this rank's progress. The
/// result is rank 0's: it makes the run's folder, and merges the ranks' summaries.
std::optional<TrainResult> train_launched(const launch::Placement& place, const Settings& settings,
                                          const std::string& resume, const model::Zoo& zoo, const TellLauncher& tell);

}  // namespace ripieno::program
