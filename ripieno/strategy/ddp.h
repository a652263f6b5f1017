// Bucketed overlap: synchronous SGD whose buckets are averaged while the backward pass is still computing the others,
// as PyTorch's DistributedDataParallel does; with `forward`, the exchange also goes on under the next forward pass.
//
// 1. All ranks start from rank 0's weights.
// 2. The backward pass announces each bucket of gradients as it becomes ready, the last layers' first.
// 3. Ready buckets are averaged beside it, all or up to `in_flight` at once. All ranks start them in rank 0's order,
//    which it announces bucket by bucket in the first three steps and which then stays: of those that are ready there,
//    the first that became so. A rank whose bucket is not ready yet waits with it.
// 4. When all buckets are averaged, every rank's optimiser takes the step.
// 4'. With `forward`: each bucket is stepped on part by part, as soon as it is averaged and the backward pass does not
// read its
//    parameters any more; with the last its gate opens. The next forward pass begins at once and waits at the gates of
//    the layers that are not there yet. Rank 0's order is then: of those that are ready, the bucket that the next
//    forward pass needs first; and of those that are in flight, its messages go first (Message::urgency).
//
// Bytes: as synchronous SGD; the order's are of Purpose::control.
// Commits: a step, on each rank, when its last bucket is averaged there (alike.h). With `forward` not at once, for each
// bucket is stepped on by itself: such a step cannot be dropped. The epoch's end waits for the last. Source: Li et al.,
// PyTorch distributed: experiences on accelerating data parallel training, VLDB 2020; Peng et al., A generic
// communication scheduler for distributed DNN training acceleration (ByteScheduler), SOSP 2019, for forward.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

std::unique_ptr<Strategy> make_ddp(const StrategyInfo& info, const Plan& plan, Workplace workplace);

}  // namespace ripieno::strategy
