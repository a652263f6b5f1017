// The options of agree(): those of recipes (docs/strategies.md), under their own names without the table's, and a few
// of the loop's. {.steps = 16} is local.steps = 16.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/loop/users_optimiser.h"
#include "ripieno/strategy/registry.h"

namespace ripieno::loop {

struct AgreeOptions {
  std::uint32_t steps = 8;         ///< local-sgd, diloco: a rank's steps between two exchanges of the same fragment
  std::uint32_t fragments = 1;     ///< local-sgd, diloco: parts of the model that are exchanged in turn
  std::uint32_t delay = 0;         ///< local-sgd, diloco: steps that go on while an exchange is in flight
  int passes = 1;                  ///< accumulate: batches per exchange; ring-passes: predecessors; ring-groups: others
  int servers = 1;                 ///< ps-*: shards of the model, each beside a worker
  int staleness = 2;               ///< ps-ssp: steps that the fastest rank may be ahead of the slowest
  std::uint32_t local_epochs = 1;  ///< fed*: epochs between two exchanges
  bool deltas = false;             ///< fed*: ranks send their changes; else their parameters
  strategy::Statistics batch_norm = strategy::Statistics::mean;  ///< fed*: batch norm's statistics
  /// The step on averaged differences: learning_rate of local-sgd, diloco, fed*; momentum of diloco, fedavgm; beta1,
  /// beta2, epsilon of fedadam.
  strategy::OuterOptions outer = {};

  codec::CodecOptions codec = {};  ///< of what is exchanged (codec/codec.h)
  std::string route = "auto";      ///< accumulate, local-sgd, diloco: the average's (collective/schedule.h)
  std::string small_route = "auto";
  std::size_t small_kb = 0;    ///< up to which `small_route` is taken, in KiB
  std::size_t segment_kb = 0;  ///< of a route, in KiB; 0: never cut
  /// Strategies whose workers step by themselves (local-sgd, diloco, gossip-*, ring-passes, ring-groups, fed*): ranks
  /// may have learning rates of their own. Else those that differ are an error.
  bool own_rates = false;
  /// Called on every rank whenever its optimiser is about to step, when the gradients are those that it steps on (with
  /// strategies that average gradients: the average): the place to clip them. Between backward() and step() they are
  /// this rank's own. Not with parameter servers, which step in place of the optimiser.
  std::function<void()> before_update = {};
  double bucket_mb = 25;   ///< gradients exchanged together, in 10^6 bytes
  std::uint64_t seed = 0;  ///< of partners and random rounding; the same on all ranks

  /// This rank's steps in an epoch; 0: there are no epochs, the loop is one. At an epoch's end exchanges in flight are
  /// waited for, summed passes exchanged, and buffers averaged (not with ps-*). Federated averaging needs it, and ranks
  /// may differ.
  std::uint32_t steps_per_epoch = 0;
  std::uint32_t samples_per_epoch = 0;  ///< fed*: the rank's weight; 0: its steps_per_epoch
  /// step() is told each batch's samples, by which batches count; else all batches count alike. It costs a small sum
  /// over the ranks in each step.
  bool uneven_batches = false;
};

/// The plan of a loop without an end. Throws Error(usage), with the reason, for what cannot work in a user's own loop,
/// for an option that the strategy or the codec has no use for, and for what strategy/refusals.h refuses.
strategy::Plan plan_of_loop(const strategy::StrategyInfo& info, const AgreeOptions& options, int ranks);

/// A line for each option that must be the same on all ranks.
std::vector<std::string> lines_of(const strategy::StrategyInfo& info, const AgreeOptions& options);

/// The options' steps_per_epoch, or a number that no loop reaches.
std::uint32_t epoch_length(const AgreeOptions& options);

}  // namespace ripieno::loop
