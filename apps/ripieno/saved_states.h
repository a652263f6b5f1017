// The ranks' states in a run's folder. A job that is killed while they are saved can be resumed: a rank's newest state
// is state-RANK.pt; the previous one stays as state-RANK.epoch-E.pt until all ranks have a newer one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

#include "apps/ripieno/program_runs.h"
#include "ripieno/train/checkpoint.h"

namespace ripieno::program {

class SavedStates {
 public:
  SavedStates(RunFolder folder, int ranks) : folder_(std::move(folder)), ranks_(ranks) {}

  /// Saves a rank's state, which begins with its epochs_done (increasing from call to call), and removes states that no
  /// rank needs. Each object saves one rank's states. Throws Error(io).
  void save(int rank, std::int64_t epochs_done, const train::NamedTensors& state);

  /// From now on this process saves that rank's states, which is lost. Returns the epochs that its newest has; 0: none.
  std::int64_t take_over(int rank);

  /// Removes a rank's files but for the newest. All ranks have saved that by now.
  void keep_newest(int rank);

  /// A rank's file of the newest epoch that all ranks have. Throws Error(data), which names the missing or damaged
  /// file, or, if the ranks have no epoch in common, lists the epochs that there are.
  std::filesystem::path newest_of(int rank) const;

 private:
  using Files = std::map<std::int64_t, std::filesystem::path>;  // by epochs done

  /// A rank's present files. Throws Error(data) if the newest is damaged.
  Files files_of(int rank) const;

  RunFolder folder_;
  int ranks_;
  std::int64_t last_ = 0;  // the last epochs_done that this process saved
};

}  // namespace ripieno::program
