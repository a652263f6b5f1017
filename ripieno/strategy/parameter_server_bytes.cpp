// The closed form of what a parameter server's ranks send.
#include "ripieno/strategy/parameter_server.h"
#include "ripieno/strategy/shard_link.h"

namespace ripieno::strategy {

std::optional<std::uint64_t> ps_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                           const Workload& work, int rank) {
  const KeyShards keys(layout, plan.servers.count);
  const int worker = info.worker(plan, rank);
  std::uint64_t bytes = 0;
  for (int s = 0; s < keys.count() && worker >= 0; ++s) {  // as a worker, to the shards on other ranks
    if (s == rank) continue;
    const auto push = push_bytes(link_options(plan, layout, keys, worker, s));
    if (!push) return std::nullopt;
    bytes += *push * work.steps[worker];
  }
  if (rank < keys.count()) {  // as a shard, to the workers on other ranks
    const std::uint64_t pull = pull_bytes(link_options(plan, layout, keys, 0, rank));
    for (std::size_t w = 0; w < work.steps.size(); ++w) {
      if (static_cast<int>(w) != worker) bytes += pull * work.steps[w];
    }
  }
  return bytes * work.epochs;
}

}  // namespace ripieno::strategy
