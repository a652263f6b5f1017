// Everybody to everybody, all at once. One latency and no dependence of one message on another: best for small buffers,
// and for encodings that cannot be added on the way.
//
// All-reduce: rank r sends its whole buffer to r+1, r+2, .., and adds up the P buffers in the order of the ranks
//   (execute.h), so that all have the same bits. P/2 times the bytes of the others; P buffers of memory.
// All-gather: rank r sends its chunk to r+1, r+2, ..
// All-to-all: rank r sends r+1, r+2, .. the block that is theirs.
//
// Rounds: 1. Bytes sent by a rank, for n bytes: n (P-1), the others n (P-1)/P. Time: alpha + (P-1) b beta for messages
// of b bytes, exact for every P. Source: the one-phase all-pairs algorithm of Shah et al., MSCCL++, arXiv:2504.09014,
// 2025.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::direct {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

Step all_gather(int rank, World world, std::size_t elements, int k);
Step all_to_all(int rank, World world, std::size_t elements, int k);
/// Of a buffer's chunks.
Duration chunks_time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::direct
