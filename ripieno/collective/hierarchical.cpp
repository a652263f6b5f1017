#include "ripieno/collective/hierarchical.h"

#include <algorithm>

#include "ripieno/collective/reduce_broadcast.h"
#include "ripieno/collective/ring.h"

namespace ripieno::collective::hierarchical {
namespace {

/// Ranks of the fullest node.
int fullest(World world) { return std::min(world.per_node, world.ranks); }

/// Renumbers a step: rank i becomes the world's rank first + i * stride.
Step renumbered(Step step, int first, int stride) {
  for (Transfer& one : step.sends) one.peer = first + one.peer * stride;
  for (Transfer& one : step.receives) one.peer = first + one.peer * stride;
  return step;
}

}  // namespace

int steps(World world) { return reduce_broadcast::steps(fullest(world)) + ring::steps(world.nodes()); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int node = rank / world.per_node;
  const int leader = node * world.per_node;
  const int here = std::min(world.per_node, world.ranks - leader);
  // A smaller last node goes through the tree of a full one: its missing ranks form whole subtrees.
  const auto inside = [&](int tree_step) {
    Step step = reduce_broadcast::step(rank - leader, fullest(world), elements, tree_step);
    const auto is_missing = [here](const Transfer& one) { return one.peer >= here; };
    step.sends.erase_if(is_missing);
    step.receives.erase_if(is_missing);
    return renumbered(step, leader, 1);
  };
  const int up = reduce_broadcast::steps(fullest(world)) / 2, among = ring::steps(world.nodes());
  if (k < up) return inside(k);                   // 1. reduce
  if (k >= up + among) return inside(k - among);  // 3. broadcast
  if (rank != leader) return {};
  return renumbered(ring::step(node, world.nodes(), elements, k - up), 0, world.per_node);  // 2. among leaders
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  return reduce_broadcast::time(fullest(world), bytes, link) + ring::time(world.nodes(), bytes, link);
}

}  // namespace ripieno::collective::hierarchical
