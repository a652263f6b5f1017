// Which of a job's failures is shown: the cause, not what followed from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::launch {

struct Failure {
  int rank;  ///< whose; -1: the rendezvous'
  Error error;
  bool follows;             ///< from the loss of a peer
  std::optional<int> code;  ///< the program's own, where it ended without a word
};

/// Whom a rank's words hold to have been lost ("lost rank 2 (connection closed) while ..", "gave up on rank 2 after
/// .."), or to have given up for a reason of its own ("rank 1 gave up: ..").
struct Blame {
  int rank;
  bool waited;                 ///< in vain, for the whole timeout; else the peer's end was seen
  std::optional<int> told_by;  ///< the rank whose words these are, which gave up for them
};
std::optional<Blame> blame_in(const std::string& words);

/// The first that does not follow from another. Where all do: who waited in vain rather than who saw such a rank end,
/// and of those the one at the end of the chain: if rank 1 gave up on rank 0, and rank 0 on rank 2, that is what rank 0
/// said. Words that were told stand for those of the rank that told them, where there are none of its own.
const Failure& cause_of(const std::vector<Failure>& failures);

}  // namespace ripieno::launch
