#include "ripieno/collective/bruck.h"

#include <algorithm>
#include <bit>

namespace ripieno::collective::bruck {

int steps(World world) { return std::bit_width(static_cast<unsigned>(world.ranks - 1)); }

Step all_gather(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks, hop = 1 << k, count = std::min(hop, ranks - hop);
  const int before = (rank - hop + ranks) % ranks, after = (rank + hop) % ranks;
  return {.sends = chunk_transfers(before, ranks, elements, rank, count, numeric::Reduce::replace),
          .receives = chunk_transfers(after, ranks, elements, after, count, numeric::Reduce::replace)};
}

Step reduce_scatter(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks, hop = 1 << (steps(world) - 1 - k), count = std::min(hop, ranks - hop);
  const int before = (rank - hop + ranks) % ranks, after = (rank + hop) % ranks;
  return {.sends = chunk_transfers(after, ranks, elements, after, count, numeric::Reduce::add),
          .receives = chunk_transfers(before, ranks, elements, rank, count, numeric::Reduce::add)};
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return steps(world) * link.latency +
         (world.ranks - 1) * (link.per_byte * static_cast<std::int64_t>(bytes / world.ranks));
}

}  // namespace ripieno::collective::bruck
