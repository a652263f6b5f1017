#include "ripieno/collective/ring.h"

namespace ripieno::collective::ring {
namespace {

/// Sends chunk `first` - k to the next rank and receives the chunk before it from the previous one.
Step around(int rank, World world, std::size_t elements, int first, int k, numeric::Reduce how) {
  const int ranks = world.ranks;
  const auto mod = [ranks](int x) { return ((x % ranks) + ranks) % ranks; };
  const auto part = [&](int i) { return chunk(elements, ranks, mod(i)); };
  return {.sends = Transfer{mod(rank + 1), part(first - k), how},
          .receives = Transfer{mod(rank - 1), part(first - k - 1), how}};
}

}  // namespace

int half_steps(World world) { return world.ranks - 1; }
int steps(World world) { return 2 * half_steps(world); }

Step reduce_scatter(int rank, World world, std::size_t elements, int k) {
  return around(rank, world, elements, rank - 1, k, numeric::Reduce::add);
}

Step all_gather(int rank, World world, std::size_t elements, int k) {
  return around(rank, world, elements, rank, k, numeric::Reduce::replace);
}

Step step(int rank, World world, std::size_t elements, int k) {
  const int half = half_steps(world);
  if (k < half) return around(rank, world, elements, rank, k, numeric::Reduce::add);   // 1. reduce-scatter
  return around(rank, world, elements, rank + 1, k - half, numeric::Reduce::replace);  // 2. all-gather
}

Duration half_time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return half_steps(world) * (link.latency + link.per_byte * static_cast<std::int64_t>(bytes / world.ranks));
}
Duration time(World world, std::uint64_t bytes, transport::LinkModel link) { return 2 * half_time(world, bytes, link); }

}  // namespace ripieno::collective::ring
