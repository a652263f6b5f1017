// Which rank a hang is due to, from what each rank waits for: where one rank hangs, those that wait for it make others
// wait, and the first watchdog that fires is mostly at a rank whose peer is as innocent as itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/core/runtime.h"

namespace ripieno::transport {

/// The ranks that a rank waits for, as it says itself. nullopt: it does not answer.
using Waits = std::optional<std::vector<int>>;

struct Hang {
  /// Ascending. Empty: undecided, since ranks wait for each other.
  std::vector<int> culprits;
  /// For people: "rank 0 waits for 1, 1 for 2, 2 does not answer". "": nothing is known but what the error says.
  std::string known;
};

/// Follows all chains of waits that begin at `rank`. The culprits are the ranks on them that do not answer; if all
/// answer, those at which chains end: they wait for nobody, so they compute, or hang outside of the transport.
/// `waits`: by rank; what lies outside of the ranks is ignored.
Hang find_hang(int rank, const std::vector<Waits>& waits);

/// The first culprit, as lost; -1 if it is undecided.
Loss loss_by(const Hang& hang);

/// Error(peer) of `rank`: "rank 0: gave up on rank 2 after 3 s of waiting for ring of 10 fp32: rank 0 waits for 1, 1
/// for 2, 2 does not answer". `doing`: "waiting for ring of 10 fp32".
Error gave_up_because_of(const Hang& hang, int rank, Duration timeout, const std::string& doing);

}  // namespace ripieno::transport
