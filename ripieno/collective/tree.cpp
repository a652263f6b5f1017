#include "ripieno/collective/tree.h"

#include <bit>

namespace ripieno::collective::tree {
namespace {

/// The edge that a rank has in a level; peer -1: none.
struct Edge {
  int peer = -1;
  bool is_child = false;
  int subtree = 0, count = 0;  ///< the child's: first number and how many
};

Edge edge_of(int rank, World world, int level) {
  const int ranks = world.ranks, number = (rank - world.root + ranks) % ranks, distance = 1 << level;
  const auto rank_of = [&](int v) { return (v + world.root) % ranks; };
  const int place = number % (2 * distance);
  if (place == distance) return {rank_of(number - distance), true, number, std::min(distance, ranks - number)};
  if (place == 0 && number + distance < ranks) {
    return {rank_of(number + distance), false, number + distance, std::min(distance, ranks - number - distance)};
  }
  return {};
}

/// The chunks of an edge's subtree.
Transfers chunks(const Edge& edge, World world, std::size_t elements) {
  const int first = (edge.subtree + world.root) % world.ranks;
  return chunk_transfers(edge.peer, world.ranks, elements, first, edge.count, numeric::Reduce::replace);
}

Step step_of(bool sends, Transfers transfers) {
  Step step;
  (sends ? step.sends : step.receives) = std::move(transfers);
  return step;
}

}  // namespace

int steps(World world) { return std::bit_width(static_cast<unsigned>(world.ranks - 1)); }

Step reduce(int rank, World world, std::size_t elements, int k) {
  const Edge edge = edge_of(rank, world, k);
  if (edge.peer < 0) return {};
  return step_of(edge.is_child, Transfer{edge.peer, {0, elements}, numeric::Reduce::add});
}

Step broadcast(int rank, World world, std::size_t elements, int k) {
  const Edge edge = edge_of(rank, world, steps(world) - 1 - k);
  if (edge.peer < 0) return {};
  return step_of(!edge.is_child, Transfer{edge.peer, {0, elements}, numeric::Reduce::replace});
}

Step gather(int rank, World world, std::size_t elements, int k) {
  const Edge edge = edge_of(rank, world, k);
  if (edge.peer < 0) return {};
  return step_of(edge.is_child, chunks(edge, world, elements));
}

Step scatter(int rank, World world, std::size_t elements, int k) {
  const Edge edge = edge_of(rank, world, steps(world) - 1 - k);
  if (edge.peer < 0) return {};
  return step_of(!edge.is_child, chunks(edge, world, elements));
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return steps(world) * (link.latency + link.per_byte * static_cast<std::int64_t>(bytes));
}

Duration chunks_time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return steps(world) * link.latency +
         (world.ranks - 1) * (link.per_byte * static_cast<std::int64_t>(bytes / world.ranks));
}

}  // namespace ripieno::collective::tree
