#include "ripieno/collective/two_phase.h"

#include "ripieno/collective/pairwise.h"

namespace ripieno::collective::two_phase {

int steps(World world) { return 2 * pairwise::steps(world); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int half = pairwise::steps(world);
  if (k < half) return pairwise::reduce_scatter(rank, world, elements, k);  // 1
  return pairwise::all_gather(rank, world, elements, k - half);             // 2
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return 2 * pairwise::time(world, bytes, link);
}

}  // namespace ripieno::collective::two_phase
