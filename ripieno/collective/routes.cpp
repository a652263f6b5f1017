#include <array>

#include "ripieno/collective/bruck.h"
#include "ripieno/collective/direct.h"
#include "ripieno/collective/double_binary_tree.h"
#include "ripieno/collective/flat.h"
#include "ripieno/collective/gather_scatter.h"
#include "ripieno/collective/halving_doubling.h"
#include "ripieno/collective/hierarchical.h"
#include "ripieno/collective/leader_ring.h"
#include "ripieno/collective/native.h"
#include "ripieno/collective/pairwise.h"
#include "ripieno/collective/reduce_broadcast.h"
#include "ripieno/collective/ring.h"
#include "ripieno/collective/scatter_gather.h"
#include "ripieno/collective/tree.h"
#include "ripieno/collective/two_phase.h"
#include "ripieno/core/edit_distance.h"

namespace ripieno::collective {
namespace {

constexpr std::array all_reduce_routes{
    Route{"gather-scatter", "every buffer to rank 0, the sum back to every rank", "2(P-1)", "n(P-1)",
          "Li et al., OSDI 2014", gather_scatter::steps, gather_scatter::step, gather_scatter::time},
    Route{"reduce-broadcast", "reduce to rank 0, then broadcast, along a binomial tree", "2 ceil(log2 P)",
          "n ceil(log2 P)", "Thakur et al., IJHPCA 2005", reduce_broadcast::steps, reduce_broadcast::step,
          reduce_broadcast::time},
    Route{"ring", "reduce-scatter, then all-gather, around a ring", "2(P-1)", "2n(P-1)/P",
          "Patarasuk and Yuan, JPDC 2009", ring::steps, ring::step, ring::time},
    Route{"halving-doubling", "recursive halving, then recursive doubling", "2 log2 Q + 2 min(1, P-Q)",
          "2n(Q-1)/Q + n min(1, P-Q)", "Thakur et al., IJHPCA 2005", halving_doubling::steps, halving_doubling::step,
          halving_doubling::time},
    Route{"direct", "every buffer to every rank, at once", "min(1, P-1)", "n(P-1)",
          "Shah et al., arXiv:2504.09014, 2025", direct::steps, direct::step, direct::time},
    Route{"two-phase", "each rank adds up one chunk and sends it to all; in place through shared memory", "2(P-1)",
          "2n(P-1)/P", "Shah et al., arXiv:2504.09014, 2025", two_phase::steps, two_phase::step, two_phase::time},
    Route{"hierarchical", "reduce inside each node of M, ring among their first ranks, broadcast inside",
          "2 ceil(log2 M) + 2(N-1)", "n ceil(log2 M) + 2n(N-1)/N", "Jia et al., arXiv:1807.11205, 2018",
          hierarchical::steps, hierarchical::step, hierarchical::time, transport::Collective::all_reduce, true},
    Route{"double-binary-tree", "reduce, then broadcast, each half of the buffer along its own tree",
          "2 (floor(log2 P) + ceil(log2 P) - min(1, P-1))", "n min(1, P-1) min(4, P)/2",
          "Sanders, Speck and Traeff, Parallel Computing 2009", double_binary_tree::steps, double_binary_tree::step,
          double_binary_tree::time},
    Route{"leader-ring", "partial sums around a ring to the leader, then the sum around it", "2(P-1)", "n min(2, P-1)",
          "Chundury, NCSU CSC591, 2022", leader_ring::steps, leader_ring::step, leader_ring::time},
};

constexpr const char* thakur = "Thakur, Rabenseifner and Gropp, IJHPCA 2005";
constexpr const char* bruck_source = "Bruck et al., IEEE TPDS 1997";

constexpr std::array reduce_scatter_routes{
    Route{"bruck", "sums of ever fewer chunks, half as far away each time", "ceil(log2 P)", "n(P-1)/P",
          "Traeff, arXiv:2410.14234, 2024", bruck::steps, bruck::reduce_scatter, bruck::time,
          transport::Collective::reduce_scatter},
    Route{"ring", "partial sums of every chunk around a ring to its owner", "P-1", "n(P-1)/P",
          "Patarasuk and Yuan, JPDC 2009", ring::half_steps, ring::reduce_scatter, ring::half_time,
          transport::Collective::reduce_scatter},
    Route{"pairwise", "every rank's part of a chunk to its owner", "P-1", "n(P-1)/P", thakur, pairwise::steps,
          pairwise::reduce_scatter, pairwise::time, transport::Collective::reduce_scatter},
};

constexpr std::array all_gather_routes{
    Route{"bruck", "ever more chunks, twice as far away each time", "ceil(log2 P)", "n(P-1)/P", bruck_source,
          bruck::steps, bruck::all_gather, bruck::time, transport::Collective::all_gather},
    Route{"ring", "every chunk around a ring", "P-1", "n(P-1)/P", "Patarasuk and Yuan, JPDC 2009", ring::half_steps,
          ring::all_gather, ring::half_time, transport::Collective::all_gather},
    Route{"pairwise", "every chunk from its owner to each rank in turn", "P-1", "n(P-1)/P", thakur, pairwise::steps,
          pairwise::all_gather, pairwise::time, transport::Collective::all_gather},
    Route{"direct", "every chunk from its owner to all ranks, at once", "min(1, P-1)", "n(P-1)/P",
          "Shah et al., arXiv:2504.09014, 2025", direct::steps, direct::all_gather, direct::chunks_time,
          transport::Collective::all_gather},
};

constexpr std::array broadcast_routes{
    Route{"tree", "from the root along a binomial tree", "ceil(log2 P)", "n ceil(log2 P)", thakur, tree::steps,
          tree::broadcast, tree::time, transport::Collective::broadcast},
    Route{"scatter-gather", "the root's chunks along a binomial tree, then all of them around a ring",
          "ceil(log2 P) + P-1", "2n(P-1)/P", "Barnett et al., SHPCC 1994", scatter_gather::steps, scatter_gather::step,
          scatter_gather::time, transport::Collective::broadcast},
    Route{"flat", "from the root to each rank, one after the other", "P-1", "n(P-1)", "Li et al., OSDI 2014",
          flat::steps, flat::broadcast, flat::from_root_time, transport::Collective::broadcast},
};

constexpr std::array reduce_routes{
    Route{"tree", "partial sums along a binomial tree to the root", "ceil(log2 P)", "n min(1, P-1)", thakur,
          tree::steps, tree::reduce, tree::time, transport::Collective::reduce},
    Route{"flat", "every buffer to the root, one after the other", "P-1", "n min(1, P-1)", "Li et al., OSDI 2014",
          flat::steps, flat::reduce, flat::to_root_time, transport::Collective::reduce},
};

constexpr std::array gather_routes{
    Route{"tree", "the chunks of ever larger subtrees along a binomial tree to the root", "ceil(log2 P)",
          "n min(1, P-1) (P - Q/2 - min(P-Q, Q/2))/P", thakur, tree::steps, tree::gather, tree::chunks_time,
          transport::Collective::gather},
    Route{"flat", "every chunk to the root, one after the other", "P-1", "n min(1, P-1)/P", "Li et al., OSDI 2014",
          flat::steps, flat::gather, flat::gather_time, transport::Collective::gather},
};

constexpr std::array scatter_routes{
    Route{"tree", "the chunks of ever smaller subtrees along a binomial tree from the root", "ceil(log2 P)", "n(P-1)/P",
          thakur, tree::steps, tree::scatter, tree::chunks_time, transport::Collective::scatter},
    Route{"flat", "every chunk from the root, one after the other", "P-1", "n(P-1)/P", "Li et al., OSDI 2014",
          flat::steps, flat::scatter, flat::scatter_time, transport::Collective::scatter},
};

constexpr std::array all_to_all_routes{
    Route{"pairwise", "blocks change places between two ranks at a time", "min(P, (P-1)(P-1))", "n(P-1)/P", thakur,
          pairwise::all_to_all_steps, pairwise::all_to_all, pairwise::all_to_all_time,
          transport::Collective::all_to_all},
    Route{"direct", "every block to its rank, all at once", "min(1, P-1)", "n(P-1)/P",
          "Shah et al., arXiv:2504.09014, 2025", direct::steps, direct::all_to_all, direct::chunks_time,
          transport::Collective::all_to_all},
};

}  // namespace

std::span<const Route> routes(transport::Collective collective) {
  switch (collective) {
    case transport::Collective::all_reduce:
      return all_reduce_routes;
    case transport::Collective::reduce_scatter:
      return reduce_scatter_routes;
    case transport::Collective::all_gather:
      return all_gather_routes;
    case transport::Collective::broadcast:
      return broadcast_routes;
    case transport::Collective::reduce:
      return reduce_routes;
    case transport::Collective::gather:
      return gather_routes;
    case transport::Collective::scatter:
      return scatter_routes;
    case transport::Collective::all_to_all:
      return all_to_all_routes;
  }
  return {};
}

std::vector<std::string> routes_that_look_at_nodes() {
  std::vector<std::string> names;
  for (const transport::Collective collective : collectives) {
    for (const Route& route : routes(collective)) {
      if (route.looks_at_nodes) names.emplace_back(route.name);
    }
  }
  return names;
}

const Route& default_route(transport::Collective collective) {
  return collective == transport::Collective::all_reduce ? find_route("ring") : routes(collective).front();
}

const Route& find_route(std::string_view name, transport::Collective collective) {
  if (name == native::name) return native::route(collective);
  if (collective == transport::Collective::all_reduce) return find_named(all_reduce_routes, name, "route");
  return find_named(routes(collective), name, text(transport::name(collective), " route"));
}

}  // namespace ripieno::collective
