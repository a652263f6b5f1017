// Reduce to rank 0, then broadcast from it, each along a binomial tree: what calls of MPI_Reduce and MPI_Bcast do. Few
// rounds, but each carries the whole buffer.
//
// 1. Reduce, j = 0 .. L-1 with L = ceil(log2 P): every rank r with r mod 2^(j+1) = 2^j sends its sum to r - 2^j.
// 2. Broadcast, j = L-1 .. 0: the same edges, backwards.
//
// Rounds: 2 ceil(log2 P). Bytes sent for n bytes: rank 0 sends n ceil(log2 P), a leaf n. Time: 2 ceil(log2 P) (alpha +
// n beta). Source: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA
// 19(1), 2005.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::reduce_broadcast {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::reduce_broadcast
