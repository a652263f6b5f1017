// Runs as reports show them: read from their folders, with what their settings say.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::program {

/// Throws Error(data) if the folder holds no finished run.
report::Run read_finished_run(const std::filesystem::path& folder);

/// What is known of the run in this folder without its metrics: its summary if it has ended, else what its settings
/// say, marked as unfinished.
report::Summary read_known(const std::filesystem::path& folder);

/// The folders of the runs in this folder, finished or not, in order.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& folder);

/// The folders themselves, or the runs in them, in order. Unfinished runs are included as far as they can be shown.
/// Those inside a folder that cannot be read, or have nothing to show, are reported on standard error. Throws
/// Error(usage) if there is no such folder, Error(data) if nothing in it can be shown.
std::vector<report::Run> read_runs(const std::vector<std::string>& folders);

}  // namespace ripieno::program
