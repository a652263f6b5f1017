// Where parameter servers can be, for tests that try all of it.
#pragma once

#include <string>
#include <vector>

#include "ripieno/strategy/strategy.h"

namespace ripieno::testing {

/// Every number of shards and both placements that so many workers can have.
inline std::vector<strategy::ServerOptions> placements(int workers, int most_shards = 3) {
  std::vector<strategy::ServerOptions> all;
  for (int shards = 1; shards <= most_shards; ++shards) {
    all.push_back({.count = shards});
    if (shards <= workers) all.push_back({.count = shards, .beside = true});
  }
  return all;
}

inline std::string describe(const strategy::ServerOptions& servers) {
  return text("servers: ", servers.count, servers.beside ? " beside" : " apart");
}

inline Duration ms(double time) { return from_seconds(time / 1000); }

}  // namespace ripieno::testing
