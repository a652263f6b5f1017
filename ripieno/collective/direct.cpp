#include "ripieno/collective/direct.h"

namespace ripieno::direct {

int steps(World world) { return world.ranks - 1; }

Step step(int rank, World world, std::size_t elements, int k) {
  const Range whole{0, elements};
  const int to = (rank + k + 1) % world.ranks, from = (rank + world.ranks - k - 1) % world.ranks;
  return {.send = Transfer{to, whole, Reduce::add}, .receive = Transfer{from, whole, Reduce::add}};
}

Duration time(World world, std::uint64_t bytes, LinkModel link) {
  if (world.ranks == 1) return Duration{0};
  return link.latency + (world.ranks - 1) * link.per_byte * static_cast<std::int64_t>(bytes);
}

}  // namespace ripieno::direct
