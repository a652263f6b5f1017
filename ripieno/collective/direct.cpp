#include "ripieno/collective/direct.h"

#include <algorithm>

namespace ripieno::collective::direct {
namespace {

/// Every rank's i-th message goes to the i-th rank after it, so that no two compete at a receiver. `to` and `from` give
/// the ranges in the sender's and in the receiver's buffer.
template <class To, class From>
Step with_all(int rank, World world, numeric::Reduce how, To to, From from) {
  Step step;
  for (int i = 1; i < world.ranks; ++i) {
    const int after = (rank + i) % world.ranks, before = (rank + world.ranks - i) % world.ranks;
    step.sends.push_back({after, to(after), how});
    step.receives.push_back({before, from(before), how});
  }
  return step;
}

}  // namespace

int steps(World world) { return std::min(1, world.ranks - 1); }

Step step(int rank, World world, std::size_t elements, int) {
  const auto whole = [elements](int) { return Range{0, elements}; };
  return with_all(rank, world, numeric::Reduce::add, whole, whole);
}

Step all_gather(int rank, World world, std::size_t elements, int) {
  const auto own = [&](int) { return chunk(elements, world.ranks, rank); };
  const auto theirs = [&](int peer) { return chunk(elements, world.ranks, peer); };
  return with_all(rank, world, numeric::Reduce::replace, own, theirs);
}

Step all_to_all(int rank, World world, std::size_t elements, int) {
  const auto block = [&](int peer) { return block_of(elements, world.ranks, peer); };
  return with_all(rank, world, numeric::Reduce::replace, block, block);
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  if (world.ranks == 1) return Duration{0};
  return link.latency + (world.ranks - 1) * link.per_byte * static_cast<std::int64_t>(bytes);
}

Duration chunks_time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return time(world, bytes / world.ranks, link);
}

}  // namespace ripieno::collective::direct
