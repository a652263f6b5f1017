// Direct all-reduce: everybody sends its whole buffer to everybody, all at once, and adds up what arrives. One latency and
// no dependence of one message on another, at P/2 times the bytes of the others: best for small buffers, and for encodings
// that cannot be added on the way.
//
// 1. Exchange, k = 0 .. P-2, all in one round: rank r sends its buffer to r+k+1, and receives that of r-k-1.
// 2. Sum: every rank adds up the P buffers in the order of the ranks (execute.h), so that all have the same bits.
//
// Rounds: 1. Bytes sent by a rank, for n bytes: n (P-1); by all together: n P (P-1). Time: alpha + (P-1) n beta, exact for
// every P. Memory: P buffers.
// Source: the one-phase all-pairs algorithm of Shah et al., MSCCL++, arXiv:2504.09014, 2025.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::direct {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, LinkModel link);

}  // namespace ripieno::direct
