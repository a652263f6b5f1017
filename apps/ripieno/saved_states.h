// The ranks' states in a run's folder, so that a job that is killed while they are saved can be resumed: a rank's
// newest state is state-RANK.pt; the one before stays beside it, as state-RANK.epoch-E.pt, until all ranks have a newer
// one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

#include "apps/ripieno/run_folder.h"
#include "ripieno/train/checkpoint.h"

namespace ripieno::program {

class SavedStates {
 public:
  SavedStates(RunFolder folder, int ranks) : folder_(std::move(folder)), ranks_(ranks) {}

  /// Saves a rank's state, which begins with its epochs_done, more from call to call; removes what no rank needs any
  /// more. Each process saves one rank's. Throws Error(io).
  void save(int rank, std::int64_t epochs_done, const train::NamedTensors& state);

  /// A rank's file of the newest epoch that all ranks have. Throws Error(data) that names what is missing or damaged,
  /// or says which epochs there are where the ranks have none in common.
  std::filesystem::path newest_of(int rank) const;

 private:
  using Files = std::map<std::int64_t, std::filesystem::path>;  // by epochs done

  /// What a rank has now. Throws Error(data) where its newest is damaged.
  Files files_of(int rank) const;

  RunFolder folder_;
  int ranks_;
  std::int64_t last_ = 0;  // that this process saved
};

}  // namespace ripieno::program
