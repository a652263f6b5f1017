// The worlds that a route is tested on.
#pragma once

#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno::testing {

/// So many ranks; for a route that looks at the nodes, with several numbers of them a node; for one that has a root,
/// with several roots.
inline std::vector<collective::World> worlds(const collective::Route& route, int ranks) {
  std::vector<collective::World> all{ranks};
  if (collective::has_root(route.collective)) {
    if (ranks > 1) all.push_back({ranks, 1, ranks - 1});
    if (ranks > 3) all.push_back({ranks, 1, ranks / 2});
  }
  if (!route.looks_at_nodes) return all;
  for (const int per_node : {2, 3, 4, 8}) all.push_back({ranks, per_node});
  return all;
}

}  // namespace ripieno::testing
