#include "ripieno/collective/pairwise.h"

#include <algorithm>

namespace ripieno::collective::pairwise {

int steps(World world) { return world.ranks - 1; }

Step reduce_scatter(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks, to = (rank + k + 1) % ranks, from = (rank + ranks - k - 1) % ranks;
  return {.sends = Transfer{to, chunk(elements, ranks, to), numeric::Reduce::add},
          .receives = Transfer{from, chunk(elements, ranks, rank), numeric::Reduce::add}};
}

Step all_gather(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks, to = (rank + k + 1) % ranks, from = (rank + ranks - k - 1) % ranks;
  return {.sends = Transfer{to, chunk(elements, ranks, rank), numeric::Reduce::replace},
          .receives = Transfer{from, chunk(elements, ranks, from), numeric::Reduce::replace}};
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return steps(world) * (link.latency + link.per_byte * static_cast<std::int64_t>(bytes / world.ranks));
}

int all_to_all_steps(World world) { return world.ranks; }

Step all_to_all(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks, other = (k - rank + ranks) % ranks;
  if (other == rank) return {};
  const Transfer block{other, block_of(elements, ranks, other), numeric::Reduce::replace};
  return {.sends = block, .receives = block};
}

Duration all_to_all_time(World world, std::uint64_t bytes, transport::LinkModel link) {
  // Every rank idles once; with two ranks, nobody waits for it.
  const int ranks = world.ranks, rounds = std::min(ranks, (ranks - 1) * (ranks - 1));
  return rounds * (link.latency + link.per_byte * static_cast<std::int64_t>(bytes / ranks));
}

}  // namespace ripieno::collective::pairwise
