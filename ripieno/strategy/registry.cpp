#include "ripieno/strategy/registry.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ripieno/collective/two_phase.h"
#include "ripieno/core/edit_distance.h"
#include "ripieno/strategy/ddp.h"
#include "ripieno/strategy/federated.h"
#include "ripieno/strategy/gossip.h"
#include "ripieno/strategy/leader_ring.h"
#include "ripieno/strategy/local_sgd.h"
#include "ripieno/strategy/parameter_server.h"
#include "ripieno/strategy/refusals.h"
#include "ripieno/strategy/ring_groups.h"
#include "ripieno/strategy/ring_passes.h"
#include "ripieno/strategy/synchronous.h"

namespace ripieno::strategy {
namespace {

using Period = decltype(StrategyInfo::period);

constexpr bool exact = true, agrees = true, servers = true;

std::uint32_t every_step(const Plan&, int) { return 1; }
std::uint32_t every_pass(const Plan& plan, int) { return static_cast<std::uint32_t>(plan.passes); }
std::uint32_t every_local_steps(const Plan& plan, int) { return plan.local.steps; }
std::uint32_t every_hop(const Plan&, int workers) {
  return std::max(1u, static_cast<std::uint32_t>(std::bit_width(static_cast<unsigned>(workers - 1))));
}

constexpr StrategyInfo synchronous(std::string_view name, std::string_view title, std::string_view route,
                                   bool alone = false) {
  return {name,
          title,
          "gradients",
          "every step",
          route,
          exact,
          agrees,
          DataUse::global_batches,
          !servers,
          make_synchronous,
          synchronous_bytes_sent,
          synchronous_rounds,
          {.alone = alone, .commits = true},
          every_step};
}

constexpr StrategyInfo federated(std::string_view name, std::string_view title) {
  return {name,
          title,
          "parameters or deltas",
          "after local epochs",
          "clients and cloud",
          !exact,
          !agrees,
          DataUse::shards,
          !servers,
          make_federated,
          federated_bytes_sent,
          federated_rounds,
          {.has_cloud = true, .commits = true},
          every_step};
}

constexpr StrategyInfo gossip(std::string_view name, std::string_view title, std::string_view route, Period period) {
  return {name,
          title,
          "parameters",
          "every step",
          route,
          !exact,
          !agrees,
          DataUse::shards_in_step,
          !servers,
          make_gossip,
          gossip_bytes_sent,
          synchronous_rounds,
          {.mixes = true, .commits = true},
          period};
}

constexpr StrategyInfo local(std::string_view name, std::string_view title) {
  return {name,
          title,
          "deltas",
          "after local steps",
          "any",
          !exact,
          !agrees,
          DataUse::shards_in_step,
          !servers,
          make_local_sgd,
          local_sgd_bytes_sent,
          local_sgd_rounds,
          {.local_steps = true, .commits = true},
          every_local_steps};
}

constexpr std::array built_in{
    synchronous("single", "one worker: the baseline", "ring", true),
    synchronous("gather-scatter", "gradients to rank 0, their mean back to all", "gather-scatter"),
    synchronous("reduce-broadcast", "a reduce to rank 0, then a broadcast, along MPI's binomial trees",
                "reduce-broadcast"),
    synchronous("ring", "ring all-reduce of the gradients", "ring"),
    synchronous("halving-doubling", "recursive halving-doubling all-reduce of the gradients", "halving-doubling"),
    synchronous("direct", "every rank's gradients to every rank, in one round", "direct"),
    synchronous("hierarchical", "inside each node, then a ring across nodes", "hierarchical"),
    synchronous("double-binary-tree", "two trees, each for half of the gradients", "double-binary-tree"),
    StrategyInfo{"leader-ring",
                 "around a ring to an elected leader, and around again",
                 "gradients",
                 "every step",
                 "leader-ring",
                 exact,
                 agrees,
                 DataUse::global_batches,
                 !servers,
                 make_leader_ring,
                 leader_ring_bytes_sent,
                 synchronous_rounds,
                 {.survives = true, .commits = true},
                 every_step},
    StrategyInfo{"ddp",
                 "buckets averaged while backward (or the next forward) runs",
                 "gradients",
                 "as buckets become ready",
                 "any",
                 exact,
                 agrees,
                 DataUse::global_batches,
                 !servers,
                 make_ddp,
                 synchronous_bytes_sent,
                 synchronous_rounds,
                 {.by_buckets = true, .commits = true},
                 every_step},
    StrategyInfo{"accumulate",
                 "gradients of several batches added up before an exchange",
                 "gradients",
                 "after several batches",
                 "any",
                 exact,
                 agrees,
                 DataUse::global_batches,
                 !servers,
                 make_accumulate,
                 accumulate_bytes_sent,
                 accumulate_rounds,
                 {.sums_passes = true, .commits = true},
                 every_pass},
    StrategyInfo{"ps-sync",
                 "parameter servers that wait for all workers",
                 "gradients",
                 "every step",
                 "servers",
                 exact,
                 agrees,
                 DataUse::global_batches,
                 servers,
                 make_ps_sync,
                 ps_bytes_sent,
                 synchronous_rounds,
                 {.commits = true},
                 every_step},
    StrategyInfo{"ps-async",
                 "parameter servers, each worker at its own pace",
                 "gradients",
                 "asynchronously",
                 "servers",
                 !exact,
                 !agrees,
                 DataUse::shards,
                 servers,
                 make_ps_async,
                 ps_bytes_sent,
                 synchronous_rounds,
                 {.own_pace = true},
                 every_step},
    StrategyInfo{"ps-ssp",
                 "parameter servers, no worker more than some steps ahead",
                 "gradients",
                 "asynchronously, bounded",
                 "servers",
                 !exact,
                 !agrees,
                 DataUse::shards_in_step,
                 servers,
                 make_ps_ssp,
                 ps_bytes_sent,
                 synchronous_rounds,
                 {.own_pace = true},
                 every_step},
    federated("fedavg", "federated averaging: local epochs, then the mean"),
    federated("fedavgm", "federated averaging with momentum at the cloud"),
    federated("fedadam", "federated averaging with Adam at the cloud"),
    local("local-sgd", "local steps, then the mean of the parameters"),
    local("diloco", "local steps, then Nesterov's step on the mean difference"),
    StrategyInfo{"ring-passes",
                 "parameters averaged with some predecessors on a ring",
                 "parameters",
                 "every step",
                 "predecessors",
                 !exact,
                 !agrees,
                 DataUse::shards_in_step,
                 !servers,
                 make_ring_passes,
                 ring_passes_bytes_sent,
                 synchronous_rounds,
                 {.mixes = true, .predecessors = true, .commits = true},
                 every_step},
    StrategyInfo{"ring-groups",
                 "parameters averaged in groups of neighbours on a ring",
                 "parameters",
                 "every step",
                 "groups",
                 !exact,
                 !agrees,
                 DataUse::shards_in_step,
                 !servers,
                 make_ring_groups,
                 ring_groups_bytes_sent,
                 synchronous_rounds,
                 {.mixes = true, .in_groups = true, .commits = true},
                 every_step},
    gossip("gossip-pairs", "parameters averaged in random pairs", "random pairs", every_step),
    gossip("gossip-exponential", "parameters averaged with one peer, 1, 2, 4, .. ranks away", "exponential graph",
           every_hop),
};

std::vector<StrategyInfo>& all() {
  static std::vector<StrategyInfo> all(std::begin(built_in), std::end(built_in));
  return all;
}

}  // namespace

std::span<const StrategyInfo> strategies() { return all(); }

bool is_built_in(std::string_view strategy) {
  return std::any_of(built_in.begin(), built_in.end(), [&](const StrategyInfo& info) { return info.name == strategy; });
}

void add_strategy(const StrategyInfo& info) {
  for (const StrategyInfo& other : all()) {
    if (other.name == info.name) fail(ErrorKind::usage, "strategy ", info.name, " exists already: choose another name");
  }
  all().push_back(info);
}

const StrategyInfo& find_strategy(std::string_view name) { return find_named(all(), name, "strategy"); }

bool can_retake(const StrategyInfo& info, const Plan& plan) {
  return info.traits.commits && !plan.exchange.forward && !plan.exchange.is_native();
}

Plan settled(const StrategyInfo& info, Plan plan, const collective::Communicator& comm) {
  if (info.route != "any" || plan.exchange.route != "auto") return plan;
  const codec::CodecKind kind = codec::find_codec(plan.exchange.codec.name).kind;
  const bool averages_numbers = kind == codec::CodecKind::wire || kind == codec::CodecKind::low_rank;
  const std::string_view in_place = collective::two_phase::name;
  const bool has_it = comm.find_engine(in_place, transport::Collective::all_reduce, DType::fp32);
  plan.exchange.route = averages_numbers && has_it ? in_place : "ring";
  return plan;
}

std::unique_ptr<Strategy> make_strategy(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  const int workers = workplace.comm.size() - info.servers(plan);
  refuse({info, plan, workers, workplace.learner.loss_scale() != nullptr});
  if (workplace.regroup && plan.exchange.is_native()) {
    fail(ErrorKind::usage, "strategy ", info.name,
         " with exchange.route = native: MPI cannot take back its own collective, so no step can be taken again after "
         "an "
         "abort; take another route, or give no Workplace::regroup");
  }
  if (workplace.regroup && plan.exchange.forward) {
    fail(ErrorKind::usage, "strategy ", info.name,
         " with exchange.overlap = forward steps on each bucket by itself: its steps cannot be "
         "taken again after an abort; set exchange.overlap = backward, or give no Workplace::regroup");
  }
  return info.make(info, plan, std::move(workplace));
}

}  // namespace ripieno::strategy
