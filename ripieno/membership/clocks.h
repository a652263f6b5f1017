// How far the ranks' clocks are apart: every runtime's clock begins with its process. For one trace of all ranks.
#pragma once

#include <memory>

#include "ripieno/transport/endpoint.h"

namespace ripieno::membership {

/// Of a rank's clock; both 0 of rank 0's.
struct ClockOffset {
  Duration ahead{0};  ///< what is to be added to this rank's runtime.now() for rank 0's
  Duration error{
      0};  ///< by how much that can be wrong, either way; clocks that run at different rates part further with time
};

/// All ranks call it together.
/// Cristian's algorithm (F. Cristian, "Probabilistic clock synchronization", 1989): a rank asks rank 0 `tries` times
/// what time it is, and believes the answer that came quickest, which lies at the middle of its question's and its
/// answer's time: wrong by at most half that round trip. Rank 0 serves the ranks in turn: (P - 1) * tries round trips,
/// 8 bytes each way. All of it goes on `channel`.
Task<ClockOffset> clock_offset(std::shared_ptr<transport::Endpoint> endpoint, transport::Channel channel,
                               int tries = 8);

}  // namespace ripieno::membership
