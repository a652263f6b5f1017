// The folders of the program's runs, and the description of the machine that they run on.
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/observe/run_folder.h"

namespace ripieno::program {

using observe::RunFolder;

/// Makes the run's folder in run.folder, with config.toml and env.json. Throws Error(usage), Error(io).
RunFolder create_run(const Settings& settings);

/// The folder of an earlier run. Throws Error(data) if it is not one of the program's: it has no config.toml.
RunFolder open_run(const std::filesystem::path& path);

/// What has started this job's processes: "ripieno", or a name of launch/launchers.h.
std::string launcher();

/// observe::environment_json() of this program.
std::string environment_json();

}  // namespace ripieno::program
