// The ranks' states in a run's folder. A job that is killed while they are saved can be resumed: a rank's newest state
// is state-RANK.pt; the previous one stays as state-RANK.epoch-E.pt, or state-RANK.epoch-E-step-K.pt, until all ranks
// have a newer one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include "apps/ripieno/program_runs.h"
#include "ripieno/strategy/strategy.h"
#include "ripieno/train/checkpoint.h"

namespace ripieno::program {

class SavedStates {
 public:
  SavedStates(RunFolder folder, int ranks) : folder_(std::move(folder)), ranks_(ranks) {}

  /// Saves a rank's state, which begins with the two numbers of `point` (increasing from call to call), and removes
  /// states that no rank needs. Each object saves one rank's states. Throws Error(io).
  void save(int rank, strategy::Point point, const train::NamedTensors& state);

  /// From now on this process saves that rank's states, which is lost. Returns the point of its newest; nullopt: none.
  std::optional<strategy::Point> take_over(int rank);

  /// Removes a rank's files but for the newest. All ranks have saved that by now.
  void keep_newest(int rank);

  struct Saved {
    strategy::Point point;
    std::filesystem::path file;
  };
  /// A rank's file of the newest point that all ranks have. Throws Error(data), which names the missing or damaged
  /// file, or, if the ranks have no point in common, lists those that there are.
  Saved newest_of(int rank) const;

 private:
  using Files = std::map<strategy::Point, std::filesystem::path>;

  /// A rank's present files. Throws Error(data) if the newest is damaged.
  Files files_of(int rank) const;

  RunFolder folder_;
  int ranks_;
  std::optional<strategy::Point> last_;  // that this process saved
};

}  // namespace ripieno::program
