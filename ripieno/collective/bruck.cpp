#include "ripieno/collective/bruck.h"

#include <algorithm>
#include <bit>

namespace ripieno::bruck {
namespace {

/// `count` chunks from that of rank `first` on, with `peer`.
Transfers chunks(int peer, int ranks, std::size_t elements, int first, int count, Reduce how) {
  const int end = first + count;
  const auto part = [&](int from, int to) {
    return Transfer{peer, {chunk(elements, ranks, from).begin, chunk(elements, ranks, to - 1).end}, how};
  };
  Transfers all = part(first, std::min(end, ranks));
  if (end > ranks) all.push_back(part(0, end - ranks));
  return all;
}

}  // namespace

int steps(World world) { return std::bit_width(static_cast<unsigned>(world.ranks - 1)); }

Step all_gather(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks, hop = 1 << k, count = std::min(hop, ranks - hop);
  const int before = (rank - hop + ranks) % ranks, after = (rank + hop) % ranks;
  return {.sends = chunks(before, ranks, elements, rank, count, Reduce::replace),
          .receives = chunks(after, ranks, elements, after, count, Reduce::replace)};
}

Step reduce_scatter(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks, hop = 1 << (steps(world) - 1 - k), count = std::min(hop, ranks - hop);
  const int before = (rank - hop + ranks) % ranks, after = (rank + hop) % ranks;
  return {.sends = chunks(after, ranks, elements, after, count, Reduce::add),
          .receives = chunks(before, ranks, elements, rank, count, Reduce::add)};
}

Duration time(World world, std::uint64_t bytes, LinkModel link) {
  return steps(world) * link.latency +
         (world.ranks - 1) * (link.per_byte * static_cast<std::int64_t>(bytes / world.ranks));
}

}  // namespace ripieno::bruck
