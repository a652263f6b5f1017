#include "ripieno/collective/ring.h"

namespace ripieno::ring {

int steps(World world) { return 2 * (world.ranks - 1); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks;
  const auto mod = [ranks](int x) { return ((x % ranks) + ranks) % ranks; };
  const auto part = [&](int i) { return chunk(elements, ranks, mod(i)); };
  const int next = mod(rank + 1), previous = mod(rank - 1);
  if (k < ranks - 1) {  // 1. reduce-scatter
    return {.send = Transfer{next, part(rank - k), Reduce::add},
            .receive = Transfer{previous, part(rank - k - 1), Reduce::add}};
  }
  k -= ranks - 1;  // 2. all-gather
  return {.send = Transfer{next, part(rank + 1 - k), Reduce::replace},
          .receive = Transfer{previous, part(rank - k), Reduce::replace}};
}

Duration time(World world, std::uint64_t bytes, LinkModel link) {
  const int ranks = world.ranks;
  return 2 * (ranks - 1) * (link.latency + link.per_byte * static_cast<std::int64_t>(bytes / ranks));
}

}  // namespace ripieno::ring
