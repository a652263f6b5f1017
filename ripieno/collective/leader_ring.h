// Leader ring: two cycles around a ring. Partial sums travel to the leader, then the sum travels to all. Each hop
// carries the whole buffer and waits for the one before it, so it takes P times as long as the ring all-reduce
// (ring.h); cutting the buffer into segments (ExecuteOptions) lets the hops of different segments overlap.
//
// The leader is rank 0; to make another worker the leader, rotate the group's members.
// 1. First cycle, k = 0 .. P-2: rank k+1 sends its sum to rank k+2 (the last to the leader, rank 0), which adds it to
// its own.
// 2. Second cycle, k = 0 .. P-2: rank k sends the result to rank k+1.
//
// Rounds: 2(P-1). Bytes sent for n bytes: n by the leader and by rank P-1, 2n by the others (P = 2: n by both).
// Time: 2(P-1)(alpha + n beta), exact for every P.
// Source: Chundury, Distributed learning using iterative pair-wise averaging, NCSU CSC591, 2022, section 2.2.1: "In the
// first cycle, each worker sends its updates to the next and so on until the first one gets all of them. [..] In the
// second cycle, the updated gradients are sent to all the workers."
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::leader_ring {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::leader_ring
