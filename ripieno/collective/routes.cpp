#include <array>

#include "ripieno/collective/direct.h"
#include "ripieno/collective/double_binary_tree.h"
#include "ripieno/collective/gather_scatter.h"
#include "ripieno/collective/halving_doubling.h"
#include "ripieno/collective/hierarchical.h"
#include "ripieno/collective/leader_ring.h"
#include "ripieno/collective/reduce_broadcast.h"
#include "ripieno/collective/ring.h"
#include "ripieno/collective/two_phase.h"
#include "ripieno/core/edit_distance.h"

namespace ripieno {
namespace {

constexpr std::array table{
    Route{"gather-scatter", "every buffer to rank 0, the sum back to every rank", "2(P-1)", "n(P-1)",
          "Li et al., OSDI 2014", gather_scatter::steps, gather_scatter::step, gather_scatter::time},
    Route{"reduce-broadcast", "reduce to rank 0, then broadcast, along a binomial tree", "2 ceil(log2 P)",
          "n ceil(log2 P)", "Thakur et al., IJHPCA 2005", reduce_broadcast::steps, reduce_broadcast::step,
          reduce_broadcast::time},
    Route{"ring", "reduce-scatter, then all-gather, around a ring", "2(P-1)", "2n(P-1)/P",
          "Patarasuk and Yuan, JPDC 2009", ring::steps, ring::step, ring::time},
    Route{"halving-doubling", "recursive halving, then recursive doubling", "2 log2 Q + 2 min(1, P-Q)",
          "2n(Q-1)/Q + n min(1, P-Q)",
          "Thakur et al., IJHPCA 2005", halving_doubling::steps, halving_doubling::step, halving_doubling::time},
    Route{"direct", "every buffer to every rank, at once", "min(1, P-1)", "n(P-1)", "Shah et al., arXiv:2504.09014, 2025", direct::steps,
          direct::step, direct::time, true},
    Route{"two-phase", "each rank sums up a chunk from all and hands it to all; in place through shared memory", "2(P-1)", "2n(P-1)/P",
          "Shah et al., arXiv:2504.09014, 2025", two_phase::steps, two_phase::step, two_phase::time},
    Route{"hierarchical", "reduce inside each node of M, ring among their first ranks, broadcast inside",
          "2 ceil(log2 M) + 2(N-1)", "n ceil(log2 M) + 2n(N-1)/N", "Jia et al., arXiv:1807.11205, 2018",
          hierarchical::steps, hierarchical::step, hierarchical::time},
    Route{"double-binary-tree", "reduce, then broadcast, each half along a tree of its own", "2 (floor(log2 P) + ceil(log2 P) - min(1, P-1))",
          "n min(1, P-1) min(4, P)/2", "Sanders, Speck and Traeff, Parallel Computing 2009", double_binary_tree::steps, double_binary_tree::step,
          double_binary_tree::time},
    Route{"leader-ring", "partial sums around a ring to the leader, then the sum around it", "2(P-1)", "n min(2, P-1)",
          "Chundury, NCSU CSC591, 2022", leader_ring::steps, leader_ring::step, leader_ring::time},
};

}  // namespace

std::span<const Route> routes() { return table; }

const Route& find_route(std::string_view name) {
  return find_named(table, name, "route");
}

}  // namespace ripieno
