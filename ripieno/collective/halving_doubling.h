// Recursive halving and doubling: as few bytes as a ring, in a logarithmic number of rounds; best for small and medium
// buffers. With Q = 2^L the largest power of two <= P:
//
// 0. Fold: rank r >= Q sends its buffer to r - Q, which adds it, and waits for step 3.
// 1. Recursive halving, j = 0 .. L-1: ranks r and r xor Q/2^(j+1) hold the same block; each sends the half that the
//    other keeps and adds the half that it keeps. Then rank r owns the sum of chunk r of Q.
// 2. Recursive doubling: the same pairs backwards; each sends the block that it has and receives the other half.
// 3. Unfold: rank r sends the result to r + Q.
//
// Rounds: 2 log2 Q (plus 2 if P is not a power of two). Bytes sent by a rank for n bytes: 2 n (Q-1)/Q (plus n in a fold
// or unfold). Time, P a power of two: 2 log2(P) alpha + 2 (P-1)/P n beta.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005 (Rabenseifner's algorithm).
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::halving_doubling {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::halving_doubling
