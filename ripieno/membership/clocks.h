// The offsets between the ranks' clocks, for one trace of all ranks: every runtime's clock begins with its process.
#pragma once

#include <memory>

#include "ripieno/transport/endpoint.h"

namespace ripieno::membership {

/// The offset of a rank's clock; for rank 0 both are 0.
struct ClockOffset {
  Duration ahead{0};  ///< add it to this rank's runtime.now() to get rank 0's
  Duration error{0};  ///< the error bound, either way; clocks that run at different rates drift further apart
};

/// All ranks call it together.
/// Cristian's algorithm (F. Cristian, "Probabilistic clock synchronization", 1989): a rank asks rank 0 `tries` times
/// for its time and uses the answer with the shortest round trip, which it takes to be from the middle of that round
/// trip: the error is at most half of it. Rank 0 serves the ranks in turn: (P - 1) * tries round trips, 8 bytes each
/// way. All messages use `channel`.
Task<ClockOffset> clock_offset(std::shared_ptr<transport::Endpoint> endpoint, transport::Channel channel,
                               int tries = 8);

}  // namespace ripieno::membership
