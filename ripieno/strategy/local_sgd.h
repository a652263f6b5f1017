// Local SGD and DiLoCo: workers train by themselves and only now and then agree on what they changed. With k local
// steps between two exchanges the bytes of a step shrink k-fold.
//
//   local-sgd  the mean of the workers' parameters is taken
//   diloco     the mean of their changes is the gradient of an outer optimiser (strategy/outer.h): Nesterov's
//
// The parameters are cut into F fragments of whole tensors, exchanged in turn: fragment f after every step t = 0, 1, ..
// with t mod k = k - 1 - floor(f k / F). F = 1 is the plain form: everything after k, 2k, .. steps.
// v: the parameters that the workers last agreed on; w: this worker's own.
//
// 1. All workers start from rank 0's parameters: w = v.
// 2. Every step: w is moved by the worker's own optimiser on its own batch; the gradient is not weighted.
// 3. After a fragment's step t: d <- v - w on the fragment, and its mean over the workers sets out: along any route,
//    with any codec, weighted by the samples that each has learnt from since the fragment's last exchange.
// 4. Once the mean is here: v <- outer step from v with the mean as its gradient;  w <- v.
// 5. Go to 2, until the plan's epochs are done.
//
// With a delay D > 0, 1 .. floor(k / F), the exchange goes on under the steps t + 1 .. t + D, and 4 is done after step
// t + D (at an epoch's end at the latest, so that nothing is under way when a checkpoint is written). What the worker
// learnt meanwhile is kept: w <- v + (w - w at step t). Streaming DiLoCo mixes instead, w <- a w + (1 - a) v, which
// leaves w a part a of the way to where the worker is by itself, and drops a part 1 - a of what it learnt meanwhile.
// Here nothing is dropped: the next exchange sends all of it, once.
//
// Between exchanges workers differ: the consensus is the mean of their parameters, which is v where the last step was
// an exchange of everything without delay. Nothing more is exchanged at the plan's end.
//
// With k = 1, F = 1, no delay and plain SGD, local-sgd takes the steps of one worker with the whole batch.
// Rounds: F in k steps. Bytes sent: what one average of each fragment takes on the route with the codec (Averager), as
// often as its steps come: in k steps that of the whole model.
// Memory: v, d, the outer momentum and, with a delay, w at step t: as large as the model each.
// Commits: a worker's own step when its pass is over; a fragment's exchange, on each worker, with 4. What an abort
// breaks off sets out again from the same numbers, which are kept; who is behind takes v and the outer optimiser from
// one who is ahead. Errors: Error(usage) where there are more fragments than tensors, and on options that cannot be
// (make_averager, make_outer). Sources: Stich, Local SGD converges fast and communicates little, ICLR 2019; Douillard,
// Feng, Rusu, Chhaparia, Donchev, Kuncoro, Ranzato, Szlam, Shen, DiLoCo: distributed low-communication training of
// language models, 2023; Douillard, Donchev, Rush, Kale, Charles, Garrett, Teston, Lacey, McIlroy, Shen, Rame, Szlam,
// Ranzato, Barham, Streaming DiLoCo with overlapping communication: towards a distributed free lunch, 2025 (fragments,
// delay).
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// The parameters in `count` ranges of whole tensors after each other, each cut at the tensor's border that is nearest
/// to the even cut. Throws Error(usage) unless there are 1 .. as many as tensors.
std::vector<Range> fragments_of(const Layout& layout, std::uint32_t count);

/// Whether fragment f is exchanged after step t (from 0, over the whole run).
bool exchanges_after(const LocalOptions& options, std::uint32_t fragment, std::uint64_t step);

/// info.name is local-sgd or diloco.
std::unique_ptr<Strategy> make_local_sgd(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> local_sgd_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                  const Workload& work, int rank);

double local_sgd_rounds(const Plan& plan, double steps);

}  // namespace ripieno::strategy
