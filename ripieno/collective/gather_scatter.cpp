#include "ripieno/collective/gather_scatter.h"

namespace ripieno::gather_scatter {

int steps(World world) { return 2 * (world.ranks - 1); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks;
  const Range whole{0, elements};
  const bool gathering = k < ranks - 1;
  const int worker = (gathering ? k : k - (ranks - 1)) + 1;
  const Reduce how = gathering ? Reduce::add : Reduce::replace;
  if (rank != 0 && rank != worker) return {};
  const Transfer transfer{rank == 0 ? worker : 0, whole, how};
  const bool sends = gathering == (rank == worker);  // 1. gather: the worker sends; 2. scatter: rank 0 does
  if (sends) return {.send = transfer, .receive = {}};
  return {.send = {}, .receive = transfer};
}

Duration time(World world, std::uint64_t bytes, LinkModel link) {
  const int ranks = world.ranks;
  if (ranks == 1) return Duration{0};
  return ranks * link.latency + 2 * (ranks - 1) * link.per_byte * static_cast<std::int64_t>(bytes);
}

}  // namespace ripieno::gather_scatter
