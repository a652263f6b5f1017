#include "ripieno/strategy/registry.h"

#include <array>

#include "ripieno/strategy/federated.h"
#include "ripieno/strategy/parameter_server.h"
#include "ripieno/strategy/synchronous.h"

namespace ripieno {
namespace {

constexpr StrategyInfo synchronous(std::string_view name, std::string_view title, std::string_view route) {
  return {name, title, "gradients", "every step", route, true, DataUse::global_batches, 0, make_synchronous,
          synchronous_bytes_sent};
}

constexpr std::array table{
    synchronous("single", "one worker: the baseline", "ring"),
    synchronous("gather-scatter", "gradients to rank 0, their mean back to all", "gather-scatter"),
    synchronous("reduce-broadcast", "MPI's reduce, then its broadcast, of the gradients", "reduce-broadcast"),
    synchronous("ring", "ring all-reduce of the gradients", "ring"),
    synchronous("halving-doubling", "recursive halving-doubling all-reduce of the gradients", "halving-doubling"),
    StrategyInfo{"ps-async", "asynchronous parameter server on rank 0: each worker at its own pace", "gradients", "asynchronously",
                 "server", false, DataUse::shards, 1, make_parameter_server, parameter_server_bytes_sent},
    StrategyInfo{"fedavg", "federated averaging: local epochs, then the mean of the parameters", "parameters",
                 "after local epochs", "gather-scatter", false, DataUse::shards, 0, make_federated, federated_bytes_sent},
};

}  // namespace

std::span<const StrategyInfo> strategies() { return table; }

const StrategyInfo& find_strategy(std::string_view name) {
  std::string known;
  for (const StrategyInfo& info : table) {
    if (info.name == name) return info;
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  }
  fail(ErrorKind::usage, "there is no strategy \"", name, "\"; the strategies are ", known);
}

}  // namespace ripieno
