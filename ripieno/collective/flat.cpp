#include "ripieno/collective/flat.h"

namespace ripieno::collective::flat {
namespace {

/// The transfer between the root and the k-th rank after it.
Step between(int rank, World world, int k, Range range, numeric::Reduce how, bool to_root) {
  const int other = (world.root + 1 + k) % world.ranks;
  if (rank != world.root && rank != other) return {};
  const Transfer transfer{rank == world.root ? other : world.root, range, how};
  if (to_root == (rank == other)) return {.sends = transfer, .receives = {}};
  return {.sends = {}, .receives = transfer};
}

Range chunk_of_kth(World world, std::size_t elements, int k) {
  return chunk(elements, world.ranks, (world.root + 1 + k) % world.ranks);
}

}  // namespace

int steps(World world) { return world.ranks - 1; }

Step reduce(int rank, World world, std::size_t elements, int k) {
  return between(rank, world, k, {0, elements}, numeric::Reduce::add, true);
}
Step broadcast(int rank, World world, std::size_t elements, int k) {
  return between(rank, world, k, {0, elements}, numeric::Reduce::replace, false);
}
Step gather(int rank, World world, std::size_t elements, int k) {
  return between(rank, world, k, chunk_of_kth(world, elements, k), numeric::Reduce::replace, true);
}
Step scatter(int rank, World world, std::size_t elements, int k) {
  return between(rank, world, k, chunk_of_kth(world, elements, k), numeric::Reduce::replace, false);
}

Duration to_root_time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return steps(world) * (link.latency + link.per_byte * static_cast<std::int64_t>(bytes));
}
Duration from_root_time(World world, std::uint64_t bytes, transport::LinkModel link) {
  if (world.ranks == 1) return Duration{0};
  return link.latency + steps(world) * (link.per_byte * static_cast<std::int64_t>(bytes));
}
Duration gather_time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return to_root_time(world, bytes / world.ranks, link);
}
Duration scatter_time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return from_root_time(world, bytes / world.ranks, link);
}

}  // namespace ripieno::collective::flat
