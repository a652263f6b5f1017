// Whether steps that aborts break off, and that are taken again, give the bits of steps that were not broken off.
#pragma once

#include <string>

#include "ripieno/strategy/registry.h"

namespace ripieno::testing {

/// Trains so many times on linear learners in virtual time with aborts at random times (interruptions.h), on links of
/// random latency, and says what differs in which run from training without: weights, optimiser, residuals, statistics,
/// loss scale, on any rank. Empty where nothing does.
std::string difference_when_retaken(const strategy::StrategyInfo& info, const strategy::Plan& plan, int workers,
                                    int runs, bool loss_scale = false);

}  // namespace ripieno::testing
