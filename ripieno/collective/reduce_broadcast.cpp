#include "ripieno/collective/reduce_broadcast.h"

#include "ripieno/collective/tree.h"

namespace ripieno::collective::reduce_broadcast {

int steps(World world) { return 2 * tree::steps(world); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int levels = tree::steps(world);
  return k < levels ? tree::reduce(rank, world, elements, k) : tree::broadcast(rank, world, elements, k - levels);
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return 2 * tree::time(world, bytes, link);
}

}  // namespace ripieno::collective::reduce_broadcast
