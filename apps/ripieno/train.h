// Runs one job to its end, from the launcher's side.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/ripieno/program_runs.h"
#include "apps/ripieno/progress.h"
#include "apps/ripieno/settings.h"
#include "ripieno/model/zoo.h"
#include "ripieno/report/summary.h"

namespace ripieno::program {

struct TrainResult {
  std::filesystem::path folder;
  report::Summary summary;
};

/// Makes the run folder, starts the workers (or, with a transport of virtual time, runs all ranks here),
/// waits for them, and writes summary.json. `resume`: a run folder to resume; empty: none. The job must have passed
/// check_job. On an error no summary.json is written; before the first step no folder is left. On a signal all ranks
/// save at the end of a step, if the strategy can, and launch::Interrupted says how to go on.
/// `interrupted`: if not null, gets the signal that came, also where the job ended otherwise, before all had saved.
TrainResult train(const Settings& settings, const std::string& resume, const model::Zoo& zoo, ProgressBar& progress,
                  int* interrupted = nullptr);

/// What becomes of a run that a signal has ended: where it was saved, and the command that goes
/// on with it; or why there is none. `resume`: the run that it went on from; empty: none.
struct WayOn {
  std::string saved, command;  ///< the command may be empty
};
WayOn way_on(const Settings& settings, const RunFolder& folder, const std::string& resume);

/// The settings of a run that goes on from `resume` (empty: from none): what was chosen for links that were measured
/// then holds for the rest of it, since its steps stay the same.
Settings as_before(const Settings& asked, const std::string& resume);

/// The settings that a run that goes on from `resume` (empty: from none) was first asked for, as TOML: what its links
/// were measured for is not among them.
std::string first_asked(const Settings& settings, const std::string& resume);

/// One trace of all ranks, whose clocks agree. Each rank's file has one event per line, after "[" or ","; the file of a
/// killed rank has no end.
void merge_traces(const RunFolder& folder, int ranks);

/// Fills in folders that the settings leave open: data from $RIPIENO_DATA, the cache as $XDG_CACHE_HOME/ripieno or
/// ~/.cache/ripieno.
void find_data(Settings& settings);

}  // namespace ripieno::program
