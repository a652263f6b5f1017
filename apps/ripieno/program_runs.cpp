#include "apps/ripieno/program_runs.h"

#include <torch/version.h>

#include "ripieno/core/file.h"
#include "ripieno/launch/launchers.h"

namespace ripieno::program {

RunFolder create_run(const Settings& settings) {
  if (settings->run.folder.empty())
    fail(ErrorKind::usage,
         "run.folder is empty: name the folder in which run folders are made (by default runs; . is this folder)");
  const std::string name =
      settings->run.name.empty() ? text(settings->strategy, "-n", settings->workers) : settings->run.name;
  RunFolder folder = RunFolder::create(settings->run.folder, name, "run.name");
  try {
    write_file(folder.config(), settings.to_toml());
    write_file(folder.environment(), environment_json());
  } catch (...) {
    RunFolder::remove_if_nothing_came(folder.path());
    throw;
  }
  return folder;
}

RunFolder open_run(const std::filesystem::path& path) {
  RunFolder folder(path);
  if (std::filesystem::exists(folder.config())) return folder;
  if (std::filesystem::exists(folder.loop()))
    fail(ErrorKind::data, path.string(),
         ": is the run of a loop of one's own, which only that loop can repeat or resume");
  fail(ErrorKind::data, path.string(), ": is no run folder: it has no config.toml");
}

std::string launcher() {
  const std::optional<launch::Launched> other = launch::launched();
  return other && other->size > 1 ? other->launcher : "ripieno";
}

std::string environment_json() { return observe::environment_json(TORCH_VERSION, launcher()); }

}  // namespace ripieno::program
