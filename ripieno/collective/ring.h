// The ring: reduce-scatter and all-gather around a ring; one after the other, they are an all-reduce that is
// bandwidth-optimal for large buffers.
//
// 1. Reduce-scatter, P-1 steps: in step k each rank sends chunk (rank - k) to the next rank and adds chunk (rank - k -
//    1) from the previous one. Then each rank owns the sum of chunk (rank + 1); as a collective of its own,
//    reduce-scatter numbers chunks one lower, so that each rank owns its own chunk.
// 2. All-gather, P-1 steps: the finished chunks travel once around the ring and replace the old ones.
//
// Chunk i is elements [i n/P, (i+1) n/P). Rounds: P-1 each. Bytes sent by a rank, for n bytes: n (P-1)/P each.
// Time: (P-1) (alpha + n/P beta) each.
// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::ring {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

int half_steps(World world);
Step reduce_scatter(int rank, World world, std::size_t elements, int k);
Step all_gather(int rank, World world, std::size_t elements, int k);
Duration half_time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::ring
