#include "apps/ripieno/done_runs.h"

#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>
#include <vector>

#include "apps/ripieno/choose_exchange.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/program_runs.h"
#include "apps/ripieno/saved_states.h"
#include "apps/ripieno/train.h"
#include "ripieno/core/file.h"
#include "ripieno/launch/launchers.h"
#include "ripieno/observe/run_lock.h"

namespace ripieno::program {
namespace {

namespace fs = std::filesystem;

/// Settings without the one that says whether a run goes on from another: it does not change what is computed.
std::string comparable(const std::string& toml) {
  std::istringstream lines(toml);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("resume = ")) kept += line + "\n";
  }
  return kept;
}

/// As they were given.
std::string settings_in(const RunFolder& run) {
  return comparable(read_file(fs::exists(run.asked()) ? run.asked() : run.config()));
}

constexpr const char* same_settings = "with the same settings throughout";

fs::path note_of(const RunFolder& run) { return run.path() / "resumed_from"; }

/// The run that this one went on from; empty: none.
fs::path resumed_by(const RunFolder& run) {
  if (!fs::exists(note_of(run))) return {};
  const std::string note = read_file(note_of(run));
  return note.substr(0, note.find('\n'));
}

/// Whether all parts of a run that was resumed, perhaps several times, had these settings.
bool is_of_one_piece(const RunFolder& run, const std::string& settings) {
  if (!fs::exists(run.config()) || settings_in(run) != settings) return false;
  return !fs::exists(note_of(run)) || read_file(note_of(run)).ends_with(text("\n", same_settings, "\n"));
}

/// Where it was saved; nullopt: it cannot be resumed now.
std::optional<strategy::Point> saved_at(const RunFolder& run, int ranks) {
  if (observe::is_running(run.path())) return std::nullopt;
  try {
    return SavedStates(run, ranks).newest_of(0).point;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void note_resumed(const RunFolder& run, const std::string& from) {
  const bool is_same = is_of_one_piece(RunFolder(from), settings_in(run));
  write_file(note_of(run), text(from, "\n", is_same ? same_settings : "with other settings", "\n"));
}

void settle(RecipeCell* cell) {
  find_data(cell->settings);
  settle_measure(&cell->settings);
  cell->settings.assign("run.name", cell->name, {"the grid"});
}

const DoneRuns::Runs& DoneRuns::runs_in(const fs::path& folder) {
  const auto [runs, is_new] = folders_.try_emplace(folder);
  if (!is_new || !fs::is_directory(folder)) return runs->second;
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(folder)) inside.push_back(entry.path());
  std::sort(inside.begin(), inside.end());
  std::set<fs::path> continued;  // by a run that has finished
  for (const fs::path& path : inside) {
    const RunFolder run(path);
    try {
      if (!fs::exists(run.config())) continue;
      const std::string settings = settings_in(run);
      if (!is_of_one_piece(run, settings)) continue;
      if (fs::exists(run.summary())) {
        runs->second.finished.emplace(settings, path);
        for (fs::path part = resumed_by(run); !part.empty(); part = resumed_by(RunFolder(part)))
          continued.insert(fs::weakly_canonical(part));
      } else {
        runs->second.ended.emplace(settings, path);
      }
    } catch (const std::exception&) {
      if (fs::exists(run.config())) throw;  // else another job has removed the run meanwhile
    }
  }
  std::erase_if(runs->second.ended,
                [&](const auto& one) { return continued.contains(fs::weakly_canonical(one.second)); });
  return runs->second;
}

std::optional<fs::path> DoneRuns::find(const Settings& settings) {
  const Runs& runs = runs_in(settings->run.folder);
  const auto found = runs.finished.find(comparable(settings.to_toml()));
  return found == runs.finished.end() ? std::nullopt : std::optional(found->second);
}

std::optional<fs::path> DoneRuns::find_saved(const Settings& settings) {
  const auto [first, last] = runs_in(settings->run.folder).ended.equal_range(comparable(settings.to_toml()));
  std::optional<fs::path> found;
  for (auto one = first; one != last; ++one) {
    if (saved_at(RunFolder(one->second), ranks_of(settings))) found = one->second;
  }
  return found;
}

std::string run_to_go_on_from(const Settings& settings) {
  const GoOn when = settings->compute.replayed ? GoOn::never : settings->run.resume;
  const std::string restarted = launch::restarted();
  if (when == GoOn::never || (when == GoOn::after_restart && restarted.empty())) return "";
  const std::string why = text(settings.shown("run.resume"), restarted.empty() ? "" : ", ", restarted);
  const auto say = [&](const std::string& what) {
    std::cerr << text("ripieno: note: ", what, " (", why, ")\n") << std::flush;
  };
  const std::optional<fs::path> found = DoneRuns().find_saved(settings);
  if (!found) {
    say(text("begins anew: no unfinished run in ", settings->run.folder, " with these settings was saved"));
    return "";
  }
  const auto point = saved_at(RunFolder(*found), ranks_of(settings));
  say(text("goes on from ", found->string(), point ? ", which was saved " + described(*point) : ""));
  return found->string();
}

}  // namespace ripieno::program
