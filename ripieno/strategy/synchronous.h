// Synchronous data-parallel SGD: after every step all ranks hold the same weights, the ones that a single worker with
// the P-fold batch would have.
//
// 1. All ranks start from rank 0's weights.
// 2. Every rank computes the mean gradient over its part of the global batch.
// 3. The gradients are averaged, weighted by each part's samples, bucket by bucket, along the strategy's route.
// 4. Every rank's optimiser takes the same step on the same gradient.
//
// `accumulate` does 2 for `passes` batches, adds up the gradients locally, then does 3 and 4 once: this takes the step
// of one worker with the (P * passes)-fold batch, for 1/passes of the bytes. (Horovod's backward_passes_per_step
// exchanges as often, and steps on the sum over the passes.)
//
// Bytes: one average of all parameters a step (accumulate: an exchange), however they are cut into buckets
// (collective/averager.h). Commits: a step, on each rank, when its last bucket is averaged there (alike.h). Source:
// Goyal et al., Accurate, large minibatch SGD, arXiv:1706.02677, 2017; Sergeev and Del Balso, Horovod,
// arXiv:1802.05799, 2018.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

std::unique_ptr<Strategy> make_synchronous(const StrategyInfo& info, const Plan& plan, Workplace workplace);
std::unique_ptr<Strategy> make_accumulate(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> synchronous_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                    const Workload& work, int rank);
double synchronous_rounds(const Plan& plan, double steps);

std::optional<std::uint64_t> accumulate_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                   const Workload& work, int rank);
double accumulate_rounds(const Plan& plan, double steps);

}  // namespace ripieno::strategy
