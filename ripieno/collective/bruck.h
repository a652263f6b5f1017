// Bruck's all-gather, and the reduce-scatter that reverses it: as few bytes as a ring in the fewest possible rounds,
// for every number of ranks.
//
// All-gather, k = 0, 1, ..: rank r has the 2^k chunks r, r+1, ... It sends them to r - 2^k, and receives those of r +
//   2^k; in the last step only those that are missing.
// Reduce-scatter, k = .., 1, 0: rank r sends its partial sums of the chunks r + 2^k, r + 2^k + 1, .. to rank r + 2^k,
// and adds those that r - 2^k sends. After the last step rank r's chunk r is the sum of all.
//
// Chunk numbers wrap around to 0; a message across the wrap is sent as two. Rounds: ceil(log2 P). Bytes sent by a rank,
// for n bytes:
// n (P-1)/P. Time: ceil(log2 P) alpha + n (P-1)/P beta, plus at most one alpha a round for the second messages.
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications in multiport
// message-passing systems, IEEE TPDS 1997; Traff, arXiv:2410.14234, 2024, for the reduce-scatter.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::bruck {

int steps(World world);
Step all_gather(int rank, World world, std::size_t elements, int k);
Step reduce_scatter(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::bruck
