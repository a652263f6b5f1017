// Hierarchical all-reduce: reduce inside each node to its first rank, all-reduce among those, broadcast inside each
// node. Only one rank a node uses the network between nodes, so the bytes there do not grow with the ranks of a node.
//
// With M = World::per_node ranks a node (the last may have fewer) on N = ceil(P/M) nodes; node i's leader is rank i M:
// 1. Inside every node, its ranks reduce to its leader along a binomial tree (reduce_broadcast.h).
// 2. The leaders do a ring all-reduce (ring.h).
// 3. Every leader broadcasts the result along its node's tree.
//
// Rounds: 2 ceil(log2 M) + 2(N-1). Bytes sent for n bytes: a leader n ceil(log2 M) inside its node and 2 n (N-1)/N to
// others, the other ranks n each plus n for each child in the broadcast. Time, on equal links inside and between nodes:
// 2 ceil(log2 M)(alpha + n beta) + 2(N-1)(alpha + n/N beta), exact if M is a power of two and divides P, and N divides
// the elements. Source: Jia et al., Highly scalable deep learning training system with mixed-precision,
// arXiv:1807.11205, 2018 (hierarchical all-reduce).
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::hierarchical {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::hierarchical
