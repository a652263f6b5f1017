// The root exchanges with every other rank, one after the other: the simplest way; its time grows with P.
//
// Reduce, gather, k = 0 .. P-2: the k-th rank after the root sends its buffer, which the root adds to its own, or its
// chunk. Broadcast, scatter, k = 0 .. P-2: the root sends its buffer, or the rank's chunk, to the k-th rank after it.
//
// Rounds: P-1. Bytes for n bytes: n (P-1) to or from the root (chunks: n (P-1)/P). Time, for messages of b bytes:
// towards the root (P-1) (alpha + b beta), since each message is requested when the one before it has arrived; from the
// root alpha + (P-1) b beta, since messages follow each other without a pause. Source: the centralised scheme of
// parameter-server training with one server; Li et al., OSDI 2014, section 2.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::flat {

int steps(World world);
Step reduce(int rank, World world, std::size_t elements, int k);
Step broadcast(int rank, World world, std::size_t elements, int k);
Step gather(int rank, World world, std::size_t elements, int k);
Step scatter(int rank, World world, std::size_t elements, int k);

/// The time for messages of `bytes` bytes.
Duration to_root_time(World world, std::uint64_t bytes, transport::LinkModel link);
Duration from_root_time(World world, std::uint64_t bytes, transport::LinkModel link);
/// The time for chunks of a buffer of `bytes` bytes.
Duration gather_time(World world, std::uint64_t bytes, transport::LinkModel link);
Duration scatter_time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::flat
