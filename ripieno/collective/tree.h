// A binomial tree whose root is the world's; ranks are numbered from the root on. In level k, number v with v mod
// 2^(k+1) = 2^k is the child of v - 2^k.
//
// Reduce:    levels 0, 1, ..: the child sends its sum, the parent adds it.
// Broadcast: levels .., 1, 0: the parent sends, the child stores it.
// Gather:    levels 0, 1, ..: the child sends the chunks of its subtree, the 2^k numbers from v on.
// Scatter:   levels .., 1, 0: the parent sends the child the chunks of its subtree.
//
// Rounds: ceil(log2 P). Bytes sent by the busiest rank, for n bytes: reduce n; broadcast n ceil(log2 P); gather and
// scatter n (P-1)/P in all at the root. Time: ceil(log2 P) (alpha + n beta), or ceil(log2 P) alpha + n (P-1)/P beta.
// Source: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::tree {

int steps(World world);
Step reduce(int rank, World world, std::size_t elements, int k);
Step broadcast(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

Step gather(int rank, World world, std::size_t elements, int k);
Step scatter(int rank, World world, std::size_t elements, int k);
Duration chunks_time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::tree
