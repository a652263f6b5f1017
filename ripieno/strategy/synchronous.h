// Synchronous data-parallel SGD: after every step all ranks hold the same weights, those that one worker with the P-fold
// batch would have.
//
// 1. All ranks start from rank 0's weights.
// 2. Every rank computes the mean gradient over its part of the global batch.
// 3. The gradients are averaged, weighted by each part's samples, bucket by bucket, along the strategy's route.
// 4. Every rank's optimiser takes the same step on the same gradient.
//
// Bytes: one averaging of all parameters a step, whatever the buckets (collective/averager.h).
// Commits: a step commits when its last bucket is averaged; a rank lost before that fails the step on all.
// Source: Goyal et al., Accurate, large minibatch SGD, arXiv:1706.02677, 2017.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno {

std::unique_ptr<Strategy> make_synchronous(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> synchronous_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                    int rank, int ranks, const std::vector<std::uint32_t>& steps, std::uint32_t epochs);

}  // namespace ripieno
