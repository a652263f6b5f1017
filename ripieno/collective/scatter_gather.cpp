#include "ripieno/collective/scatter_gather.h"

#include "ripieno/collective/ring.h"
#include "ripieno/collective/tree.h"

namespace ripieno::collective::scatter_gather {

int steps(World world) { return tree::steps(world) + ring::half_steps(world); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int levels = tree::steps(world);
  return k < levels ? tree::scatter(rank, world, elements, k) : ring::all_gather(rank, world, elements, k - levels);
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return tree::chunks_time(world, bytes, link) + ring::half_time(world, bytes, link);
}

}  // namespace ripieno::collective::scatter_gather
