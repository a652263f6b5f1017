// How the workers of an own loop stay together. Before anything is exchanged all meet in one small sum, in which each
// says what it does, whether it can go on, and which parameters it holds: so different operations never meet, an error
// on one rank is known to all at once (and all can go on after it), and ranks do not part in silence.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "ripieno/collective/communicator.h"

namespace ripieno::train {

/// What a rank comes to a meeting with.
struct Attendance {
  std::string doing;                ///< "step() number 3": the same on all ranks
  double number = 0;                ///< the meeting's result is the sum of all ranks'
  std::exception_ptr trouble = {};  ///< why this rank cannot go on
  bool replaced = false;            ///< its parameters were replaced since the last meeting: on all ranks or on none
  /// Some of its parameters, where all ranks must hold the same: as many on all ranks.
  std::vector<double> sample = {};
};

/// Every rank calls it; all get the sum of the numbers, or each an error: its own trouble; Error(peer) that names the
/// first rank in trouble and says what it was; Error(mismatch) on all where ranks do different things, hold different
/// parameters (more than rounding explains), or some have had theirs replaced and others not.
Task<double> meet(collective::Communicator comm, Attendance mine);

/// The lines that describe what all ranks must have alike: Error(mismatch) on all of them that has the first line in
/// which a rank differs from rank 0, and both versions.
Task<> compare_lines(collective::Communicator comm, std::vector<std::string> mine);

}  // namespace ripieno::train
