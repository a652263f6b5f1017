// Groups on a ring: after every step of its own each worker averages its parameters with the others of its group, a
// subset of the workers that stays the same. The groups never hear of each other until the consensus is taken.
//
// 1. All workers start from rank 0's parameters w. Neighbours on the ring are a group of p + 1 (p = Plan::passes):
// ranks
//    0 .. p, p + 1 .. 2p + 1, and so on; the last group may be smaller.
// 2. Each takes its optimiser's step on its gradient times samples W / samples of all W workers in this step.
// 3. In m - 1 passes around its group of m workers, each gets the q (its w, as the wire format holds it) of all others:
//    w_r <- (w_r - q_r) + sum of the group's q / m, summed in the order of the workers' ranks: with a wire format that
//    loses nothing, all of a group hold the same bits.
// 4. Go to 2, until the plan's epochs are done.
//
// Why the weights in 2, and why w - q is kept: strategy/mixing.h. The mean over the workers is the consensus; 3 keeps
// it. p = W - 1 is one group of all. The bytes are those of ring-passes with as many passes, whose sets overlap, so
// that there what one worker learns reaches all others in time.
//
// Rounds a step: p. Bytes sent a step for n bytes on the wire: (m - 1) n by each worker. Memory: p + 1 copies of the
// parameters in the wire's type. Commits: as strategy/mixing.h says. Errors: Error(usage) for p >= W > 1 and for a
// codec that is no wire format. Source: Chundury, Distributed learning using iterative pair-wise averaging, NCSU
// CSC591, 2022: one reading of "to average the learned weights only of a subset of workers". The others: ring_passes.h.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

std::unique_ptr<Strategy> make_ring_groups(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> ring_groups_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                    const Workload& work, int rank);

}  // namespace ripieno::strategy
