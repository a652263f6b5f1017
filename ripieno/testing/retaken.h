// Tests that steps which aborts break off, and which are taken again, give the same bits as undisturbed steps.
#pragma once

#include <string>

#include "ripieno/strategy/registry.h"

namespace ripieno::testing {

/// Trains `runs` times on linear learners in virtual time, with aborts at random times (interruptions.h) and links of
/// random latency. Says what differs, in which run, from training without aborts: weights, optimiser, residuals,
/// statistics, loss scale, on any rank. Empty if nothing differs.
std::string difference_when_retaken(const strategy::StrategyInfo& info, const strategy::Plan& plan, int workers,
                                    int runs, bool loss_scale = false);

/// The same, of pairs of aborts: the first shortly after a rank has committed a step or an epoch, when others have not,
/// the second while ranks recover from the first: every so many milliseconds of virtual time, of which a message takes
/// two. Every rank begins some of them.
std::string difference_when_recovery_is_aborted(const strategy::StrategyInfo& info, const strategy::Plan& plan,
                                                int workers, bool loss_scale, int every_ms);

}  // namespace ripieno::testing
