#include "ripieno/collective/gather_scatter.h"

#include "ripieno/collective/flat.h"

namespace ripieno::collective::gather_scatter {

int steps(World world) { return 2 * flat::steps(world); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int half = flat::steps(world);
  if (k < half) return flat::reduce(rank, world, elements, k);  // 1. gather
  return flat::broadcast(rank, world, elements, k - half);      // 2. scatter
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return flat::to_root_time(world, bytes, link) + flat::from_root_time(world, bytes, link);
}

}  // namespace ripieno::collective::gather_scatter
