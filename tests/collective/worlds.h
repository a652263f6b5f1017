// The worlds that a route is tested on.
#pragma once

#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno::testing {

/// So many ranks; for a route that looks at the nodes, with several numbers of them a node.
inline std::vector<World> worlds(const Route& route, int ranks) {
  std::vector<World> all{ranks};
  if (route.name != "hierarchical") return all;
  for (const int per_node : {2, 3, 4, 8}) all.push_back({ranks, per_node});
  return all;
}

}  // namespace ripieno::testing
