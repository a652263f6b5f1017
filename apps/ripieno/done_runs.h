// The runs of a recipe's cells that are in its folders, found by their settings.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "apps/ripieno/program_runs.h"
#include "apps/ripieno/recipe.h"

namespace ripieno::program {

/// Prepares a cell to be run, or its run to be found. Throws its errors.
void settle(RecipeCell* cell);

/// Writes into a new run's folder, which has its settings, from which run it goes on, and whether all parts of both had
/// the same.
void note_resumed(const RunFolder& run, const std::string& from);

/// Of runs in run.folder that had exactly these given settings from their first step on: of one that was resumed, all
/// its parts.
class DoneRuns {
 public:
  /// The folder of the first one that has finished; nullopt: none has.
  std::optional<std::filesystem::path> find(const Settings& settings);
  /// The folder of the last one that has ended before its time and can be resumed; nullopt: there is none.
  std::optional<std::filesystem::path> find_saved(const Settings& settings);

 private:
  /// By settings.
  struct Runs {
    std::map<std::string, std::filesystem::path> finished;
    std::multimap<std::string, std::filesystem::path> ended;
  };
  const Runs& runs_in(const std::filesystem::path& folder);

  std::map<std::filesystem::path, Runs> folders_;  // those that were looked into
};

/// The run from which one with these settings is to go on, by run.resume; "": from none. Says so in a line on standard
/// error, with the reason.
std::string run_to_go_on_from(const Settings& settings);

}  // namespace ripieno::program
