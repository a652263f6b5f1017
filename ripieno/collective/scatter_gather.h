// Broadcast of a large buffer: the root scatters its chunks along the binomial tree (tree.h), then all ranks gather
// them around the ring (ring.h).
//
// Rounds: ceil(log2 P) + P-1. Bytes sent by the root, for n bytes: 2n (P-1)/P. Time: (ceil(log2 P) + P-1) alpha +
// 2n (P-1)/P beta.
// Source: Barnett et al., Interprocessor collective communication library, SHPCC 1994 (van de Geijn's broadcast).
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::scatter_gather {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::scatter_gather
