// Passes around a ring: after each of its own steps a worker averages its parameters with those of the p workers before
// it on the ring (p = Plan::passes). p = 1 averages each worker with one neighbour (iterative pair-wise averaging); p =
// W, the number of workers, is the full leader ring, which averages all workers. For p < W more passes bring the
// workers closer together and send more; but for W > 2 only p = 1 sends less than p = W does.
//
// 1. All workers start from rank 0's parameters w.
// 2. Each takes its optimiser's step on its gradient times (its samples * W / samples of all workers in this step).
// 3. p < W: p passes. In pass j = 1 .. p worker r sends to r + 1 what it got in pass j - 1 (in the first pass: q_r, its
//    w rounded to the wire format) and gets q of worker r - j (mod W).
//    w_r <- (w_r - q_r) + (q_r + q_(r-1) + .. + q_(r-p)) / (p + 1), summed in rank order: with p = W - 1 and a lossless
//    wire format, all hold the same bits.
//    p = W: with v the parameters that all held before the step, the route `leader-ring` (two cycles around the ring,
//    collective/leader_ring.h) takes the mean of all w - v:  w <- v + mean. All hold the same bits with any wire
//    format.
// 4. Go to 2, until the plan's epochs are done.
//
// strategy/mixing.h says why 2 weights and why 3 keeps w - q. The mean over the workers is the consensus; 3 preserves
// it (p = W: except that a narrow wire format rounds the mean of the changes).
// p = W - 1 gives the same mean as p = W in half as many rounds. All workers together send p W n bytes a step, or
// 2(W - 1) n where p = W: so p = 1 trades agreement for bytes, and p = 2 .. W - 2 lose on both.
//
// Rounds a step: p; p = W: 2(W-1). Bytes sent a step for n bytes on the wire: p n by each worker; p = W: n by ranks 0
// and W-1, 2n by the others (W = 2: n by both, W = 1: 0). Memory: p + 1 copies of the parameters in the wire's type.
// Commits: p < W: as strategy/mixing.h says. p = W: a step, on each worker, when its mean has arrived; a worker that is
// behind takes v. Errors: Error(usage) for p > W and for a codec that is no wire format. Source: Chundury, Distributed
// learning using iterative pair-wise averaging, NCSU CSC591, 2022, as its text and its Table 2 define it ("when number
// of passes is 1, it becomes iterative pair-wise"; 2 workers with 2 passes, .., 6 with 6 for the all-reduce version).
// The setting that it used, Horovod's backward_passes_per_step, does something else: see `accumulate`.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

std::unique_ptr<Strategy> make_ring_passes(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> ring_passes_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                    const Workload& work, int rank);

}  // namespace ripieno::strategy
