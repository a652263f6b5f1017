#include "ripieno/collective/leader_ring.h"

namespace ripieno::collective::leader_ring {

int steps(World world) { return 2 * (world.ranks - 1); }

Step step(int rank, World world, std::size_t elements, int k) {
  const Range whole{0, elements};
  const bool first_cycle = k < world.ranks - 1;
  const int from = first_cycle ? k + 1 : k - (world.ranks - 1);
  const int to = (from + 1) % world.ranks;
  const numeric::Reduce how = first_cycle ? numeric::Reduce::add : numeric::Reduce::replace;
  if (rank == from) return {.sends = Transfer{to, whole, how}, .receives = {}};
  if (rank == to) return {.sends = {}, .receives = Transfer{from, whole, how}};
  return {};
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return 2 * (world.ranks - 1) * (link.latency + link.per_byte * static_cast<std::int64_t>(bytes));
}

}  // namespace ripieno::collective::leader_ring
