// Averagers of ranges of a model's parameters, along a strategy's route with a plan's codec.
#pragma once

#include <memory>
#include <vector>

#include "ripieno/collective/averager.h"
#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// A slot for each range of the parameters, with the matrices that lie wholly inside it.
std::vector<collective::Slot> slots_of(const Layout& layout, const std::vector<Range>& ranges);

/// An averager of these slots, along the strategy's route with the plan's codec.
std::unique_ptr<collective::Averager> averager_of(const StrategyInfo& info, const Plan& plan,
                                                  std::vector<collective::Slot> slots, DType type);

}  // namespace ripieno::strategy
