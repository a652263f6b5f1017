// Asynchronous parameter server on rank 0: workers push gradients and pull weights at their own pace; nobody waits for
// anybody else, and a gradient may have been computed on weights that are some updates old: its age.
//
// 1. All ranks start from rank 0's weights.
// 2. A worker computes the mean gradient of a batch of its shard on the weights that it last pulled.
// 3. It pushes gradient and buffers; the server's optimiser takes a step with it, in order of arrival.
// 4. The server answers with the new weights and with the gradient's age: the updates that others made since the pull.
// 5. Go to 2, until the worker's epochs are done. The server evaluates after each data set's worth of samples.
//
// Bytes a step for n bytes of parameters and b of buffers: n + b up, n down (and 16 of control each way).
// Commits: an update commits when the server has applied it. A lost worker ends the job for now.
// Source: Dean et al., Large scale distributed deep networks, NIPS 2012; Li et al., OSDI 2014.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno {

std::unique_ptr<Strategy> make_parameter_server(const StrategyInfo& info, const Plan& plan, Workplace workplace);

/// Without a step limit: every worker pushes once a step, whatever the timing.
std::optional<std::uint64_t> parameter_server_bytes_sent(const StrategyInfo& info, const Plan& plan,
                                                         const Layout& layout, int rank, int ranks, const std::vector<std::uint32_t>& steps, std::uint32_t epochs);

}  // namespace ripieno
