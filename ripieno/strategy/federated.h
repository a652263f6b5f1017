// Federated averaging: every client trains on data of its own for some epochs; then all take the mean of their parameters,
// weighted by samples. Bytes a round do not depend on the number of steps in it.
//
// 1. All clients start from rank 0's weights.
// 2. Every client takes the steps of `local_epochs` epochs over its shard, with its own optimiser.
// 3. The clients' parameters and buffers are averaged at rank 0, weighted by the samples of their shards, and handed back.
// 4. Go to 2, until the plan's epochs are done.
//
// Bytes a round for n bytes of parameters and buffers: each client n up, n down.
// Commits: a round commits when its average is back; a client lost before that fails the round on all.
// Source: McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno {

std::unique_ptr<Strategy> make_federated(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> federated_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                  int rank, int ranks, const std::vector<std::uint32_t>& steps, std::uint32_t epochs);

}  // namespace ripieno
