// Keeps the workers of a user's own loop together. Before each exchange all ranks meet in one small sum, which tells
// what each is doing, whether it can go on, and which parameters it holds. So different operations never mix, all ranks
// learn of an error at once (and can go on after it), and ranks do not diverge unnoticed.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "ripieno/collective/communicator.h"

namespace ripieno::train {

/// A rank's contribution to a meeting.
struct Attendance {
  std::string doing;                ///< "step() number 3": the same on all ranks
  double number = 0;                ///< the meeting returns the sum over the ranks
  std::exception_ptr trouble = {};  ///< why this rank cannot go on
  bool replaced = false;            ///< its parameters were replaced since the last meeting: on all ranks or on none
  /// Some of its parameters, if all ranks must hold the same; equally many on all ranks.
  std::vector<double> sample = {};
};

/// Every rank calls it; all get the sum of the numbers, or each an error: its own trouble; Error(peer), which names the
/// first rank in trouble and its error; Error(mismatch) on all if ranks do different things, hold different parameters
/// (by more than rounding), or only some had theirs replaced.
Task<double> meet(collective::Communicator comm, Attendance mine);

/// Compares lines that must be the same on all ranks. Otherwise throws, on all ranks, Error(mismatch) with the first
/// line in which a rank differs from rank 0, in both versions.
Task<> compare_lines(collective::Communicator comm, std::vector<std::string> mine);

}  // namespace ripieno::train
