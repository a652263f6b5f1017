#include "ripieno/collective/two_phase.h"

namespace ripieno::two_phase {

int steps(World world) { return 2 * (world.ranks - 1); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks, round = k % std::max(1, ranks - 1);
  const int to = (rank + round + 1) % ranks, from = (rank + ranks - round - 1) % ranks;
  const auto part = [&](int owner) { return chunk(elements, ranks, owner); };
  if (k < ranks - 1) {  // 1. reduce-scatter
    return {.send = Transfer{to, part(to), Reduce::add}, .receive = Transfer{from, part(rank), Reduce::add}};
  }
  return {.send = Transfer{to, part(rank), Reduce::replace},  // 2. all-gather
          .receive = Transfer{from, part(from), Reduce::replace}};
}

Duration time(World world, std::uint64_t bytes, LinkModel link) {
  const int ranks = world.ranks;
  return 2 * (ranks - 1) * (link.latency + link.per_byte * static_cast<std::int64_t>(bytes / ranks));
}

}  // namespace ripieno::two_phase
