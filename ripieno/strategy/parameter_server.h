// Parameter servers: k shards of the model (key_shards.h), each at a server with its part of the optimiser's state.
// Workers push gradients and pull weights; the three strategies differ in whom a worker waits for.
//
// 1. All ranks start from rank 0's weights; every worker pulls them from all shards.
// 2. A worker computes the mean gradient of a batch on the weights that it last pulled, and weights it: ps-sync by its
//    share of the global batch, the others by its samples over the mean batch of all workers.
// 3. It pushes each shard its part; with it, to shard 0, the buffers (batch norm's statistics).
// 4. ps-sync   The shard waits for all workers' gradients, adds them up in the order of workers and takes one step.
//    ps-async  The shard takes a step with each gradient, in the order of arrival.
//    ps-ssp    Likewise; but a worker at clock c (its steps so far) gets no answer before every other worker that has
//              not ended is at clock c - s or beyond, s = Plan::servers.staleness.
// 5. The shard answers with its new weights and the gradient's age. Go to 2, until the worker's steps are done.
// 6. After each epoch (ps-sync: its steps; else a data set's worth of samples, counted by every shard for itself) the
//    shards send copies to rank 0, which evaluates them while training goes on. At the end all ranks get the last one.
//
// Age of a gradient: ps-async, the updates that the shard made between this worker's pull and its push. ps-ssp,
// max(0, c - m) for weights pulled at clock c when the slowest other worker that had not ended was at clock m, so that
// they have all updates of everybody up to clock m; never more than s, by 4. s = 0 is lock-step, with updates one by
// one. A worker's record has the greatest age over its shards, the server's shard 0's.
//
// Where: Plan::servers.beside == false, shard i is rank i, which learns nothing, and workers follow; true, shard i
// lives on worker i's rank, what these two exchange goes by memory, and rank 0 evaluates between worker 0's steps (a
// stalled worker 0 then holds evaluations up, not the others' training). Records: a server on rank 0 of its own records
// every update (ps-sync: step), and every rank 0 the epochs that are evaluated; workers record their steps and, but for
// rank 0, their epochs, without accuracy. A gradient that overflowed under a loss scale is told to all shards, and none
// of them uses it (ps-sync: none of that step).
//
// Bytes a step and shard of n numbers, for b bytes of buffers: up codec(n) (+ b to shard 0), down n size_of(the codec's
// type where it is a wire format, else the type in memory); nothing between a shard and the worker on its rank. And 24
// up and 16 down of control. One round.
// Commits: an update, when its shard has applied it; a worker's step, when all shards have answered. A push carries its
// step, and a shard applies each step of a worker once: after an abort workers push again what they have not committed,
// and shards serve anew from where each worker is. Source: Dean et al., Large scale distributed deep networks, NIPS
// 2012; Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014; Ho et al., More effective
// distributed ML via a stale synchronous parallel parameter server, NIPS 2013.
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// Throw Error(usage) where there is no worker, where more shards than workers would live beside them, for more shards
/// than numbers, and for a codec that cannot be sent (PowerSGD).
std::unique_ptr<Strategy> make_ps_sync(const StrategyInfo& info, const Plan& plan, Workplace workplace);
std::unique_ptr<Strategy> make_ps_async(const StrategyInfo& info, const Plan& plan, Workplace workplace);
std::unique_ptr<Strategy> make_ps_ssp(const StrategyInfo& info, const Plan& plan, Workplace workplace);

/// Every worker pushes once a step, whatever the timing.
std::optional<std::uint64_t> ps_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                           const Workload& work, int rank);

}  // namespace ripieno::strategy
