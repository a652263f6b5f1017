// Parameter servers: the model is cut into k shards (key_shards.h); each shard's server also holds its part of the
// optimiser's state. Workers push gradients and pull weights; the three strategies differ in whom a worker waits for.
//
// 1. All ranks start from rank 0's weights; every worker pulls them from all shards.
// 2. A worker computes the mean gradient of a batch on the weights that it last pulled, and weights it: ps-sync by its
//    share of the global batch, the others by its samples divided by the mean batch of all workers.
// 3. It pushes to each shard that shard's part; to shard 0 also the buffers (batch norm's statistics).
// 4. ps-sync   The shard waits for all workers' gradients, adds them up in the order of workers and takes one step.
//    ps-async  The shard takes a step with each gradient, in the order of arrival.
//    ps-ssp    As ps-async; but a worker at clock c (its steps so far) gets no answer until every other worker that has
//              not ended is at clock c - s or beyond, s = Plan::servers.staleness.
// 5. The shard answers with its new weights and the gradient's age. Go to 2, until the worker's steps are done.
// 6. After each epoch (ps-sync: the epoch's steps; else as many samples as the data set has, counted by each shard) the
//    shards send copies to rank 0, which evaluates them while training goes on. At the end all ranks get the last copy.
//
// Age of a gradient: ps-async, the updates that the shard made between this worker's pull and its push. ps-ssp,
// max(0, c - m) for weights pulled at clock c when the slowest other worker that had not ended was at clock m, so that
// the weights have all workers' updates up to clock m; by 4, never more than s. s = 0 is lock-step, with updates one by
// one. A worker records the greatest age over its shards, the server records shard 0's.
//
// A user's loop has no last step that servers could know of: its worker's last push says that none follows, and ranks
// step at the rate that the loop has on the server's own rank (Workplace::loop).
//
// Where: if Plan::servers.beside is false, shard i is on rank i, which does not train, and the workers' ranks follow.
// If true, shard i is on worker i's rank, the two exchange through memory, and rank 0 evaluates between worker 0's
// steps (a stalled worker 0 then delays evaluations, but not the others' training). Records: rank 0 records the
// evaluated epochs, and as a server alone also every update (ps-sync: step); workers record their steps and, except on
// rank 0, their epochs, without accuracy. If a gradient overflowed under a loss scale, the worker tells all shards, and
// none of them uses it (ps-sync: nor any other gradient of that step).
//
// Bytes a step and shard of n numbers, for b bytes of buffers: up codec(n) (+ b to shard 0), down n size_of(the codec's
// type if it is a wire format, else the type in memory); also 24 up and 16 down of control. Nothing between a shard and
// the worker on its rank. One round.
// Commits: an update, when its shard has applied it; a worker's step, when all shards have answered. A push carries its
// step, and a shard applies each step of a worker once: after an abort workers push uncommitted steps again, and shards
// serve each worker from the step that it is at. Source: Dean et al., Large scale distributed deep networks, NIPS 2012;
// Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014; Ho et al., More effective
// distributed ML via a stale synchronous parallel parameter server, NIPS 2013.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// Throw Error(usage) if there is no worker, if shards beside workers outnumber them, for more shards than numbers, and
/// for a codec that cannot encode a single message (PowerSGD).
std::unique_ptr<Strategy> make_ps_sync(const StrategyInfo& info, const Plan& plan, Workplace workplace);
std::unique_ptr<Strategy> make_ps_async(const StrategyInfo& info, const Plan& plan, Workplace workplace);
std::unique_ptr<Strategy> make_ps_ssp(const StrategyInfo& info, const Plan& plan, Workplace workplace);

/// Does not depend on timing: every worker pushes once a step.
std::optional<std::uint64_t> ps_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                           const Workload& work, int rank);

}  // namespace ripieno::strategy
