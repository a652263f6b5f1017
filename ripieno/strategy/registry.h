// Every strategy by name: one table, from which they are made, listed and documented.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// How the data set is shared out.
enum class DataUse : std::uint8_t {
  global_batches,  ///< every batch is divided among the workers
  shards,          ///< every worker has a part of the data set of its own, and takes its steps at its own pace
  shards_in_step,  ///< every worker has a part of its own, and all take as many steps an epoch
};

/// How much a job does, for closed forms.
struct Workload {
  collective::World world;           ///< all ranks, servers included
  std::vector<std::uint32_t> steps;  ///< of each worker in an epoch
  std::uint32_t epochs = 1;          ///< whole ones, from the plan's first on
};

/// What else a strategy is, by which refusals, settings and projections go.
struct Traits {
  bool alone = false;  ///< one worker, without others
  bool mixes = false;  ///< workers exchange parameters themselves, of which a codec must not lose more than precision
  bool has_cloud = false;   ///< clients take steps of their own for rounds of Plan::federated's epochs, and send to one
  bool by_buckets = false;  ///< buckets are exchanged while others are computed; under the next forward pass, too, if
                            ///< the plan wants it
  bool sums_passes = false;   ///< the gradients of Plan::passes batches are one exchange
  bool local_steps = false;   ///< Plan::local's steps lie between two exchanges
  bool predecessors = false;  ///< Plan::passes counts workers: the one itself may be among them
  bool in_groups = false;     ///< Plan::passes counts the others of a group
  bool own_pace = false;      ///< workers are never at the same step, so that a run cannot be saved on the way
  bool survives = false;      ///< goes on without a worker that died
  bool commits = false;       ///< keeps the commit contract (strategy.h): see can_retake()
};

struct StrategyInfo {
  std::string_view name, title;
  std::string_view what, when,
      route;    ///< three of the four axes; the fourth is the plan's codec. Route "any": the plan's
  bool exact;   ///< with a lossless codec, takes the steps of one worker with the P-fold batch
  bool agrees;  ///< all workers hold the same parameters after every exchange
  DataUse data;
  bool has_servers;  ///< ranks or parts of ranks that hold the model (Plan::servers)
  std::unique_ptr<Strategy> (*make)(const StrategyInfo& info, const Plan& plan, Workplace workplace);
  /// Payload bytes that a rank sends for the exchange, in closed form; nothing where they depend on numbers or timing.
  std::optional<std::uint64_t> (*bytes_sent)(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                             const Workload& work, int rank);
  /// Exchanges that a worker takes part in, in an epoch of so many steps.
  double (*rounds)(const Plan& plan, double steps);
  Traits traits = {};
  /// Steps after which it does the same again; null: not known.
  std::uint32_t (*period)(const Plan& plan, int workers) = nullptr;

  /// Ranks 0 .. servers()-1 learn nothing.
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

/// Whether an attempt at a step that is dropped and taken again gives the same bits, whatever the codec.
bool can_retake(const StrategyInfo& info, const Plan& plan);

/// The plan with what it leaves open (route auto) chosen for how the group's ranks reach each other, which is the same
/// on all of them: two-phase where the endpoint has an all-reduce of its own and the codec goes along with it, else
/// ring.
Plan settled(const StrategyInfo& info, Plan plan, const collective::Communicator& comm);

/// Ripieno's, then those that were added.
std::span<const StrategyInfo> strategies();

/// Adds one of your own, for this process: to be called before anything else asks for strategies, for what was returned
/// of them does not outlive it. Throws Error(usage) where the name is taken.
void add_strategy(const StrategyInfo& info);

/// Whether it is Ripieno's: neither unknown nor added.
bool is_built_in(std::string_view strategy);

/// Throws Error(usage) that lists the known strategies.
const StrategyInfo& find_strategy(std::string_view name);

/// Refuses what cannot be (strategy/refusals.h), and a workplace that regroups with a plan whose steps cannot be
/// dropped; then makes the strategy. Throws Error(usage).
std::unique_ptr<Strategy> make_strategy(const StrategyInfo& info, const Plan& plan, Workplace workplace);

}  // namespace ripieno::strategy
