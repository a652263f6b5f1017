// One table of all combinations that are refused, with reasons. make_strategy() checks it, and `ripieno list refusals`
// prints it for the documentation.
#pragma once

#include <span>
#include <string_view>

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// Everything that a refusal may depend on.
struct Choice {
  const StrategyInfo& info;
  const Plan& plan;
  int workers = 1;
  bool loss_scale = false;        ///< compute in fp16
  bool uneven_data = false;       ///< data partitioned by label or by a Dirichlet distribution
  bool saves_on_the_way = false;  ///< checkpoints are saved during the run
  bool deaths = false;            ///< some ranks will die (simulated)
};

struct Refusal {
  std::string_view what;  ///< the combination, in the recipe's words
  std::string_view reason;
  std::string_view instead;
  bool (*applies)(const Choice& choice);
};

std::span<const Refusal> refusals();

/// Throws Error(usage), with the combination, its reason and what to do, if a refusal applies.
void refuse(const Choice& choice);

}  // namespace ripieno::strategy
