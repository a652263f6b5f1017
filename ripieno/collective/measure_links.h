// Measures the links between ranks, by the alpha-beta model: a message of b bytes takes alpha + b beta. All ranks take
// part: each sends to the next and receives from the previous, all at once, as in a ring.
//   1. alpha: the median of 21 messages of 4 bytes, or of 5 where these take long; of each, the mean over the ranks, in
//   which it does not count who started first.
//   2. beta: trains of 32 messages sent back to back. The receiver notes when each arrives, and takes the time of the
//   last two quarters over their bytes: what comes once, at the front of a train, is then over (alpha, a token bucket's
//   burst, TCP's slow start). Trains grow from 4 KiB until these two quarters last 40 ms and twice alpha, or have
//   16 MiB; further ones have that size. Each quarter counts as on the slowest rank, for which a ring waits.
// beta is the median over the quarters of three trains. Where these six do not agree, three other trains replace them.
// The measurement takes about half a second, on slow links up to some seconds.
#pragma once

#include <string>

#include "ripieno/collective/communicator.h"

namespace ripieno::collective {

struct MeasuredLinks {
  transport::LinkModel link;
  /// What the measurement does not believe of itself, and what it takes instead, in one line; empty: nothing. Where
  /// times of short messages vary, alpha is their median; where rates vary, beta is that of the slowest quarter.
  std::string doubt;
};

/// Every member calls it, and all get the same result. A group of one gets LinkModel's defaults at once.
Task<MeasuredLinks> measure_links(Communicator comm);

}  // namespace ripieno::collective
