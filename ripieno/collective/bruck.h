// Bruck's all-gather, and the reduce-scatter that is the same backwards: as few bytes as a ring, in as few rounds as
// can be, for every number of ranks.
//
// All-gather, k = 0, 1, ..: rank r has the chunks r, r+1, .. of its 2^k ranks from itself on. It sends them to r - 2^k,
//   and takes those of r + 2^k over; in the last step only as many as are missing.
// Reduce-scatter, k = .., 1, 0: rank r sends its sums of the chunks of r + 2^k, r + 2^k + 1, .. to that rank, and adds
// what
//   r - 2^k has of its own. After the last step its chunk r is the sum of all.
//
// Chunks go on at 0 after the last: such a message is two. Rounds: ceil(log2 P). Bytes sent by a rank, for n bytes:
// n (P-1)/P. Time: ceil(log2 P) alpha + n (P-1)/P beta, and alpha more for the second messages at most.
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
