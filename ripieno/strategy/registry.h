// Every strategy by name: one table, from which they are made, listed and documented.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "ripieno/strategy/strategy.h"

namespace ripieno {

/// How the data set is shared out.
enum class DataUse : std::uint8_t {
  global_batches,  ///< every batch is divided among the workers
  shards,          ///< every worker has a part of the data set of its own, and its own batches
};

struct StrategyInfo {
  std::string_view name, title;
  std::string_view what, when, route;  ///< three of the four axes; the fourth, the encoding, is the plan's wire
  bool exact;                          ///< takes the step of one worker with the P-fold batch
  DataUse data;
  int servers;  ///< ranks 0 .. servers-1 that learn nothing, besides the workers
  std::unique_ptr<Strategy> (*make)(const StrategyInfo& info, const Plan& plan, Workplace workplace);
  /// Payload bytes that `rank` of `ranks` sends for the exchange in `epochs` whole epochs, in which worker w takes
  /// steps[w] steps each, in closed form; nothing where they depend on data or timing.
  std::optional<std::uint64_t> (*bytes_sent)(const StrategyInfo& info, const Plan& plan, const Layout& layout, int rank,
                                             int ranks, const std::vector<std::uint32_t>& steps, std::uint32_t epochs);

  /// Ranks that `workers` workers need.
  int ranks(int workers) const { return workers + servers; }
  /// The index of a rank among the workers; -1 for a server.
  int worker(int rank) const { return rank < servers ? -1 : rank - servers; }
};

std::span<const StrategyInfo> strategies();

/// Throws Error(usage) that lists the known strategies.
const StrategyInfo& find_strategy(std::string_view name);

}  // namespace ripieno
