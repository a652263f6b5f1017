#include "ripieno/collective/double_binary_tree.h"

#include <bit>

namespace ripieno::collective::double_binary_tree {
namespace {

/// L, the root's level.
int height(int ranks) { return std::bit_width(static_cast<unsigned>(ranks)) - 1; }

int level(int label) { return std::countr_zero(static_cast<unsigned>(label)); }

/// The left (side 0) or right (side 1) child of a label; 0 where it has none.
int child(int label, int side, int ranks) {
  int distance = (1 << level(label)) / 2;
  if (distance == 0) return 0;
  if (side == 0) return label - distance;
  while (distance > 0 && label + distance > ranks) distance /= 2;
  return distance > 0 ? label + distance : 0;
}

/// The label above; 0 above the root.
int parent(int label, int ranks) {
  const int bit = 1 << level(label);
  const int up = (label ^ bit) | (bit << 1);
  return up <= ranks ? up : label ^ bit;
}

/// Converts between ranks and labels in the first (0) and the second tree (1).
int label_of(int rank, int tree, int ranks) {
  if (tree == 0) return rank + 1;
  return ranks % 2 == 0 ? ranks - rank : (rank + 1) % ranks + 1;
}
int rank_of(int label, int tree, int ranks) {
  if (tree == 0) return label - 1;
  return ranks % 2 == 0 ? ranks - label : (label - 2 + ranks) % ranks;
}

void put(Transfers& slot, const Transfer& transfer) {
  require(slot.empty(), "double-binary-tree: two transfers at once, with rank ", transfer.peer, " and another");
  slot = transfer;
}

}  // namespace

int steps(World world) { return 4 * height(world.ranks); }

Step step(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks, levels = height(ranks);
  const bool reducing = k < 2 * levels;
  const int round = reducing ? k / 2 : (k - 2 * levels) / 2;
  const int now = reducing ? round + 1 : levels - round;  // the parents' level
  const int side = k % 2;
  const numeric::Reduce how = reducing ? numeric::Reduce::add : numeric::Reduce::replace;
  Step step;
  for (int tree = 0; tree < 2; ++tree) {
    const Range half = chunk(elements, 2, tree);
    const int label = label_of(rank, tree, ranks);
    if (level(label) == now) {
      if (const int below = child(label, side, ranks)) {
        put(reducing ? step.receives : step.sends, {rank_of(below, tree, ranks), half, how});
      }
    }
    if (const int above = parent(label, ranks)) {
      if (level(above) == now && child(above, side, ranks) == label) {
        put(reducing ? step.sends : step.receives, {rank_of(above, tree, ranks), half, how});
      }
    }
  }
  return step;
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  if (world.ranks == 1) return Duration{0};
  const int levels = height(world.ranks);
  const Duration buffer = link.per_byte * static_cast<std::int64_t>(bytes);
  // Where P = 2^L the root has no right child: half a buffer less goes up, and half less goes down.
  if (std::has_single_bit(static_cast<unsigned>(world.ranks))) {
    return (3 * levels - 1) * link.latency + (2 * levels - 1) * buffer;
  }
  return (3 * levels + 1) * link.latency + 2 * levels * buffer;
}

}  // namespace ripieno::collective::double_binary_tree
