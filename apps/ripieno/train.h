// Runs one job to its end, from the launcher's side.
#pragma once

#include <filesystem>
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
/// check_job. On an error no summary.json is written.
TrainResult train(const Settings& settings, const std::string& resume, const model::Zoo& zoo, ProgressBar& progress);

/// One trace of all ranks, whose clocks agree. Each rank's file has one event per line, after "[" or ","; the file of a
/// killed rank has no end.
void merge_traces(const RunFolder& folder, int ranks);

/// Fills in folders that the settings leave open: data from $RIPIENO_DATA, the cache as $XDG_CACHE_HOME/ripieno or
/// ~/.cache/ripieno.
void find_data(Settings& settings);

}  // namespace ripieno::program
