// The table of all strategies by name, from which they are made, listed and documented.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// How the data set is divided among the workers.
enum class DataUse : std::uint8_t {
  global_batches,  ///< every batch is divided among the workers
  shards,          ///< every worker has its own part of the data set, and takes its steps at its own pace
  shards_in_step,  ///< every worker has its own part, and all take the same number of steps an epoch
};

/// The size of a job, for closed forms.
struct Workload {
  collective::World world;           ///< all ranks, servers included
  std::vector<std::uint32_t> steps;  ///< of each worker in an epoch
  std::uint32_t epochs = 1;          ///< whole epochs, from the plan's first on
};

/// More properties of a strategy; refusals, settings and projections depend on them.
struct Traits {
  bool alone = false;  ///< one worker, without others
  bool mixes = false;  ///< workers exchange parameters themselves, so that a codec may only lower their precision
  /// Clients take their own steps for rounds of Plan::federated's epochs, and send to one rank.
  bool has_cloud = false;
  bool by_buckets = false;   ///< buckets are exchanged while others are computed; if the plan wants it, also during the
                             ///< next forward pass
  bool sums_passes = false;  ///< one exchange carries the summed gradients of Plan::passes batches
  bool local_steps = false;  ///< workers take Plan::local's steps between two exchanges
  bool predecessors = false;  ///< Plan::passes counts workers: a worker's own may be among them
  bool in_groups = false;     ///< Plan::passes counts the others of a group
  bool own_pace = false;      ///< workers are not all at the same step, so that a run cannot be saved before its end
  bool survives = false;      ///< goes on without a worker that died
  bool commits = false;       ///< keeps the commit contract (strategy.h): see can_retake()
};

struct StrategyInfo {
  std::string_view name, title;
  std::string_view what, when,
      route;    ///< three of the four axes; the fourth is the plan's codec. Route "any": the plan chooses
  bool exact;   ///< with a lossless codec, it takes the same steps as one worker with the P-fold batch
  bool agrees;  ///< all workers hold the same parameters after every exchange
  DataUse data;
  bool has_servers;  ///< ranks or parts of ranks that hold the model (Plan::servers)
  std::unique_ptr<Strategy> (*make)(const StrategyInfo& info, const Plan& plan, Workplace workplace);
  /// Payload bytes that a rank sends for the exchange, in closed form; nullopt if they depend on numbers or timing.
  std::optional<std::uint64_t> (*bytes_sent)(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                             const Workload& work, int rank);
  /// The number of exchanges that a worker takes part in during an epoch of `steps` steps.
  double (*rounds)(const Plan& plan, double steps);
  Traits traits = {};
  /// The number of steps after which its pattern of exchanges repeats; null: not known.
  std::uint32_t (*period)(const Plan& plan, int workers) = nullptr;

  /// Ranks 0 .. servers()-1 do not train.
  int servers(const Plan& plan) const { return has_servers && !plan.servers.beside ? plan.servers.count : 0; }
  /// Ranks that `workers` workers need.
  int ranks(const Plan& plan, int workers) const { return workers + servers(plan); }
  /// The index of a rank among the workers; -1 for a server.
  int worker(const Plan& plan, int rank) const { return rank < servers(plan) ? -1 : rank - servers(plan); }
  /// The route that the exchange takes.
  std::string_view route_of(const Plan& plan) const {
    if (route != "any") return route;
    return plan.exchange.route == "auto" ? std::string_view("ring") : std::string_view(plan.exchange.route);
  }
};

/// Whether a step that is dropped and taken again gives the same bits, whatever the codec.
bool can_retake(const StrategyInfo& info, const Plan& plan);

/// The plan with route auto replaced by a route that suits the transport: two-phase if the endpoint has an all-reduce
/// of its own that works with the codec, else ring. All ranks get the same.
Plan settled(const StrategyInfo& info, Plan plan, const collective::Communicator& comm);

/// The built-in strategies, then the added ones.
std::span<const StrategyInfo> strategies();

/// Adds a strategy to this process. Invalidates what strategies() and find_strategy() have returned: call it before
/// anything else asks for strategies. Throws Error(usage) if the name is taken.
void add_strategy(const StrategyInfo& info);

/// Whether the name is of a built-in strategy; false for added and unknown ones.
bool is_built_in(std::string_view strategy);

/// Throws Error(usage), which lists the known strategies, for an unknown name.
const StrategyInfo& find_strategy(std::string_view name);

/// Makes the strategy. Throws Error(usage) for a refused combination (strategy/refusals.h), and for a workplace that
/// regroups if the plan's steps cannot be taken again.
std::unique_ptr<Strategy> make_strategy(const StrategyInfo& info, const Plan& plan, Workplace workplace);

}  // namespace ripieno::strategy
