#include "ripieno/collective/reduce_broadcast.h"

#include <bit>

namespace ripieno::reduce_broadcast {
namespace {

/// ceil(log2 P)
int levels(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

}  // namespace

int steps(World world) { return 2 * levels(world.ranks); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks;
  const Range whole{0, elements};
  const bool reducing = k < levels(ranks);
  const int distance = 1 << (reducing ? k : 2 * levels(ranks) - 1 - k);
  const Reduce how = reducing ? Reduce::add : Reduce::replace;
  const int place = rank % (2 * distance);
  if (place == distance) {  // the child of this edge
    const Transfer transfer{rank - distance, whole, how};
    if (reducing) return {.send = transfer, .receive = {}};
    return {.send = {}, .receive = transfer};
  }
  if (place == 0 && rank + distance < ranks) {  // the parent
    const Transfer transfer{rank + distance, whole, how};
    if (reducing) return {.send = {}, .receive = transfer};
    return {.send = transfer, .receive = {}};
  }
  return {};
}

Duration time(World world, std::uint64_t bytes, LinkModel link) {
  const int ranks = world.ranks;
  return 2 * levels(ranks) * (link.latency + link.per_byte * static_cast<std::int64_t>(bytes));
}

}  // namespace ripieno::reduce_broadcast
