// Gather and scatter at rank 0, the simplest all-reduce: rank 0 receives every rank's buffer, one after the other, adds
// it to its own, and sends the sum to each. All bytes go through rank 0's link, so the time grows with P.
//
// 1. Gather, k = 0 .. P-2: rank k+1 sends its buffer to rank 0, which adds it (in rank order).
// 2. Scatter, k = 0 .. P-2: rank 0 sends the sum to rank k+1.
//
// Rounds: 2(P-1). Bytes sent for n bytes: n (P-1) by rank 0, n by the others. Time: P alpha + 2 (P-1) n beta (each
// gathered message is requested when the one before it has arrived; scattered ones follow each other without a pause).
// Source: the centralised scheme of parameter-server training with one server; Li et al., OSDI 2014, section 2.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::gather_scatter {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::gather_scatter
