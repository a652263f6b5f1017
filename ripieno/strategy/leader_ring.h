// Leader ring: synchronous SGD in which one worker, the leader, averages the gradients in two cycles around a ring. The
// bully algorithm elects the leader, and elects another when it dies; the others go on without a dead worker.
//
// 1. All ranks start from rank 0's weights and elect the leader, the highest rank (membership/election.h).
// 2. Every rank computes the mean gradient over its part of the global batch.
// 3. First cycle: partial sums travel around the ring to the leader. Second cycle: the average travels from the leader
//    around the ring (collective/leader_ring.h).
// 4. Every rank's optimiser takes the same step on the same gradient.
// 5. When a rank dies, the survivors elect a leader among themselves. Those that have committed the step (or the end of
//    an epoch) hand its outcome to those that have not (alike.h); then all go on. The dead rank's part of each batch is
//    lost, and the other parts weigh more.
//
// Bytes a step for n bytes: n by the leader and the rank before it, 2n by the others.
// Commits: a step, as soon as one survivor has its average. Losing a rank during 1 ends the job; over real links, so
// does losing rank 0 at any time (transport/linked_endpoint.h). Source: Chundury, Distributed learning using iterative
// pair-wise averaging, NCSU CSC591, 2022, section 2.2; Garcia-Molina, Elections in a distributed computing system, IEEE
// Transactions on Computers C-31(1), 1982.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

std::unique_ptr<Strategy> make_leader_ring(const StrategyInfo& info, const Plan& plan, Workplace workplace);

/// The bytes while no rank dies.
std::optional<std::uint64_t> leader_ring_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                    const Workload& work, int rank);

}  // namespace ripieno::strategy
