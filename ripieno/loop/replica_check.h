// Notices ranks that have parted: that are in different backward passes, train different parameters, or hold different
// weights.
//
// Each pass (of agree(), with strategies by which all ranks hold the same weights, each exchange) begins with one
// all-reduce (maximum) of 576 bytes, beside the computation: a code of what the rank does and which parameters it
// trains, and a number of each parameter, another one in each pass; of a model with more than 64 parameters, of 64 of
// them in turn. All also with the opposite sign. Where maximum and minimum are apart, all ranks see it, and ask each
// other who holds what. (Its size is the same whatever a rank trains, or it could not tell.)
#pragma once

#include "ripieno/loop/gradient_buckets.h"

namespace ripieno::loop {

/// What must be the same on all ranks in a backward pass.
struct ReplicaState {
  std::uint64_t pass = 0;  ///< by which numbers are picked
  std::string doing;       ///< "backward pass 3 of model 1", or "mean() after ..", which has no lines
  std::shared_ptr<const std::vector<std::string>>
      lines;               ///< a line for each parameter: name, shape, type, trained or not
  std::uint64_t code = 0;  ///< a hash of the lines
};

class ReplicaCheck {
 public:
  /// Begins the all-reduce. `present` is false on a rank that only completes other ranks' exchanges; it contributes
  /// nothing.
  ReplicaCheck(c10d::Backend& group, collective::Communicator comm, std::uint32_t channel,
               const std::vector<NamedParameter>& parameters, ReplicaState state, bool present = true);

  /// After the end of the group: waits for it, and for no error.
  void forget() noexcept;
  bool is_complete() const { return reducing_.test(); }
  /// Waits for it. Error(mismatch), on all ranks: the first thing in which a rank differs from another, with both
  /// values.
  void conclude(c10d::Backend& group);

 private:
  static Task<> reduce(collective::Communicator comm, std::uint32_t channel, torch::Tensor extremes);
  bool ranks_do_the_same() const;
  /// The first parameter of which ranks hold different numbers.
  std::optional<std::size_t> first_apart() const;
  Task<> tell_apart(collective::Communicator comm, std::size_t parameter) const;

  collective::Communicator comm_;
  ReplicaState state_;
  std::vector<std::string> names_;
  std::vector<std::string> elements_;  // which one of each parameter: "[14]"; none of a tensor that is one number
  std::vector<double> values_;
  bool present_;
  torch::Tensor extremes_;  // each number, then its opposite
  ripieno::Work reducing_;
};

}  // namespace ripieno::loop
