// A rank's checkpoints: what they hold, and which of them a run may go on from.
#pragma once

#include <filesystem>
#include <map>
#include <optional>

#include "apps/ripieno/saved_states.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/train/torch_learner.h"
#include "ripieno/transport/counted.h"

namespace ripieno::program {

class RankStates {
 public:
  /// `settings` outlives it.
  RankStates(const Settings& settings, RunFolder folder, std::shared_ptr<transport::CountedEndpoint> endpoint);

  /// Reads this rank's state of the newest point that all ranks of a run have, and returns that point. Error(usage): it
  /// is beyond `epochs`; else as SavedStates::newest_of().
  strategy::Point open(const std::filesystem::path& run, std::uint32_t epochs);
  /// The numbers of states, from now on; the learner and the strategy outlive it.
  void hold(train::TorchLearner& learner, strategy::Strategy& strategy);
  /// After open() and hold(): loads the numbers. A job that still runs may have saved in between, so all ranks' states
  /// must be of the same point: Error(mismatch). Error(usage): the numbers mean something else in this run.
  Task<> restore(collective::Communicator comm);

  void save(strategy::Point point);

  /// From now on save() saves for this lost rank, too.
  void take_over(int lost);
  /// Saves for a lost rank, unless it has a state of this point.
  void save_missing(int lost, strategy::Point point);

 private:
  void visit(StateVisitor& visitor, observe::Ledger& ledger);
  std::int64_t layout_digest() const;
  void check();
  void check_steps();
  void save_for(int lost, SavedStates& states);

  const Settings& settings_;
  const RunFolder folder_;
  const std::shared_ptr<transport::CountedEndpoint> endpoint_;
  train::TorchLearner* learner_ = nullptr;
  strategy::Strategy* strategy_ = nullptr;
  std::filesystem::path from_;
  std::optional<train::StateReader> saved_;
  std::int64_t epochs_done_ = 0, steps_done_ = 0;  // whole epochs, and steps of the next
  SavedStates states_;
  std::map<int, SavedStates> states_of_lost_;  // on rank 0
};

}  // namespace ripieno::program
