// Two-phase all-pairs all-reduce: the buffer is cut into P chunks; each rank adds up one chunk and sends it to all. The
// bytes of a ring, in one hop each way. In shared memory the engine does it in place (transport/shared/all_reduce.h).
//
// 1. Reduce-scatter, k = 0 .. P-2: rank r sends chunk r+k+1 to its owner r+k+1, and adds its own chunk r as it arrives
//    from r-k-1. Then rank r owns the sum of chunk r.
// 2. All-gather, k = 0 .. P-2: rank r sends chunk r to r+k+1, and replaces its chunk r-k-1 by what arrives from there.
//
// Rounds: 2(P-1). Bytes sent by a rank, for n bytes: 2 n (P-1)/P. Time: 2(P-1)(alpha + n/P beta).
// Source: Shah et al., MSCCL++: Rethinking GPU communication abstractions for AI inference, arXiv:2504.09014, 2025
// (2PA).
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::two_phase {

inline constexpr std::string_view name = "two-phase";

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::two_phase
