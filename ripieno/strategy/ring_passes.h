// Passes around a ring: after every step of its own each worker averages its parameters with those of the p workers
// before it on the ring (p = Plan::passes). p = 1 averages between every two neighbours (iterative pair-wise
// averaging); p = W, the number of workers, is the full leader ring, whose average is everybody's. For p < W more
// passes agree more and send more; but for W > 2 only p = 1 sends less than p = W does.
//
// 1. All workers start from rank 0's parameters w.
// 2. Each takes its optimiser's step on its gradient times samples W / samples of all workers in this step.
// 3. p < W: p passes. In pass j = 1 .. p worker r sends to r + 1 what it got in pass j - 1 (in the first: q_r, its w as
//    the wire format holds it) and gets q of worker r - j (mod W).
//    w_r <- (w_r - q_r) + (q_r + q_(r-1) + .. + q_(r-p)) / (p + 1), summed in the order of the workers' ranks: with
//    p = W - 1 and a wire format that loses nothing, all hold the same bits.
//    p = W: with v, what all held before the step, the mean of all w - v is taken along the route `leader-ring` (two
//    cycles around the ring, collective/leader_ring.h):  w <- v + mean. All hold the same bits with any wire format.
// 4. Go to 2, until the plan's epochs are done.
//
// Why the weights in 2, and why w - q is kept: strategy/mixing.h. The mean over the workers is the consensus; 3 keeps
// it (p = W: but for what a narrow wire format rounds off the mean of the changes).
// p = W - 1 gives the same mean as p = W in half as many rounds. All workers together send p W n bytes a step, or
// 2(W - 1) n where p = W: so p = 1 is the one that gives up agreement for bytes, and p = 2 .. W - 2 give up both.
//
// Rounds a step: p; p = W: 2(W-1). Bytes sent a step for n bytes on the wire: p n by each worker; p = W: n by ranks 0
// and W-1, 2n by the others (W = 2: n by both, W = 1: 0). Memory: p + 1 copies of the parameters in the wire's type.
// Commits: p < W: as strategy/mixing.h says. p = W: a step, on each worker, when its mean is there; who is behind takes
// v. Errors: Error(usage) for p > W and for a codec that is no wire format. Source: Chundury, Distributed learning
// using iterative pair-wise averaging, NCSU CSC591, 2022, as its text and its Table 2 have it ("when number of passes
// is 1, it becomes iterative pair-wise"; 2 workers with 2 passes, .., 6 with 6 for the all-reduce version). The knob
// that it turned, Horovod's backward_passes_per_step, does another thing: see `accumulate`.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

std::unique_ptr<Strategy> make_ring_passes(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> ring_passes_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                    const Workload& work, int rank);

}  // namespace ripieno::strategy
