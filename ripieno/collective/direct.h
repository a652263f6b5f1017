// Every rank sends to every other, all at once. It takes one latency, and no message depends on another: best for small
// buffers, and for encodings that cannot be added on the way.
//
// All-reduce: rank r sends its whole buffer to r+1, r+2, .., and adds up the P buffers in rank order (execute.h), so
//   that all have the same bits. P/2 times the bytes of a ring; memory for P buffers.
// All-gather: rank r sends its chunk to r+1, r+2, ..
// All-to-all: rank r sends to r+1, r+2, .. the block of each.
//
// Rounds: 1. Bytes sent by a rank, for n bytes: all-reduce n (P-1), the other two n (P-1)/P. Time: alpha + (P-1) b beta
// for messages of b bytes, exact for every P. Source: the one-phase all-pairs algorithm of Shah et al., MSCCL++,
// arXiv:2504.09014, 2025.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::direct {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

Step all_gather(int rank, World world, std::size_t elements, int k);
Step all_to_all(int rank, World world, std::size_t elements, int k);
/// The time of all-gather and all-to-all.
Duration chunks_time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::direct
