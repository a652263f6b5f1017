// Ring all-reduce: the buffer is cut into P chunks that travel around a ring of all ranks, first collecting the sum, then
// handing it out. Every rank sends and receives at the full rate all the time, so the time hardly depends on P.
//
// 1. Reduce-scatter, k = 0 .. P-2: rank r sends chunk r-k to r+1 and adds chunk r-k-1 as it arrives from r-1. Then rank r
//    owns the sum of chunk r+1.
// 2. All-gather, k = 0 .. P-2: rank r sends chunk r+1-k to r+1 and replaces its chunk r-k by what arrives from r-1.
//
// Rounds: 2(P-1). Bytes sent by a rank, for n bytes: 2 n (P-1)/P. Time: 2(P-1)(alpha + n/P beta).
// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69(2), 2009.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::ring {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, LinkModel link);

}  // namespace ripieno::ring
