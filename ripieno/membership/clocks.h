// How far the ranks' clocks are apart: every runtime's clock begins with its process. For one trace of all ranks.
#pragma once

#include <memory>

#include "ripieno/transport/endpoint.h"

namespace ripieno {

/// What is to be added to this rank's runtime.now() for rank 0's; 0 on rank 0. All ranks call it together.
/// Cristian's algorithm (F. Cristian, "Probabilistic clock synchronization", 1989): a rank asks rank 0 `tries` times what time it is, and
/// believes the answer that came quickest, which lies at the middle of its question's and its answer's time: wrong by at most half
/// that round trip. Rank 0 serves the ranks in turn: (P - 1) * tries round trips, 8 bytes each way.
Task<Duration> ahead_of_clock(std::shared_ptr<Endpoint> endpoint, int tries = 8);

}  // namespace ripieno
