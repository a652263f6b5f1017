// Bucketed overlap: synchronous SGD whose buckets are averaged while the backward pass is still computing the others,
// as PyTorch's DistributedDataParallel does; with `forward`, the exchange also goes on under the next forward pass.
//
// 1. All ranks start from rank 0's weights.
// 2. The backward pass announces each bucket of gradients as it becomes ready, the last layers' first.
// 3. Ready buckets are averaged during the backward pass, all or up to `in_flight` at once. All ranks start them in
//    rank 0's order: among the buckets that are ready on rank 0, the one that became ready first. Rank 0 announces the
//    order bucket by bucket in the first three steps; from then on it is fixed. A rank whose next bucket is not ready
//    yet waits for it.
// 4. When all buckets are averaged, every rank's optimiser takes the step.
// 4'. With `forward`: a bucket is stepped on as soon as it is averaged and the backward pass no longer reads its
//    parameters (of some of them earlier than of others); after that its gate opens. The next forward pass begins at
//    once and waits at the gates of layers that are not updated yet. Rank 0's order is then: among the ready buckets,
//    the one that the next forward pass needs first. Among the buckets in flight, the messages of that bucket go first
//    (Message::urgency).
//
// Bytes: as synchronous SGD; announcing the order adds bytes of Purpose::control.
// Commits: a step, on each rank, when its last bucket is averaged there (alike.h). With `forward` each bucket is
// stepped on by itself, so a step does not commit at once and cannot be dropped; the end of an epoch waits for its last
// bucket. Source: Li et al., PyTorch distributed: experiences on accelerating data parallel training, VLDB 2020; Peng
// et al., A generic communication scheduler for distributed DNN training acceleration (ByteScheduler), SOSP 2019, for
// forward.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

std::unique_ptr<Strategy> make_ddp(const StrategyInfo& info, const Plan& plan, Workplace workplace);

}  // namespace ripieno::strategy
