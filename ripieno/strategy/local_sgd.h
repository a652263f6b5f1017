// Local SGD and DiLoCo: workers train by themselves and average their changes only every k steps, which divides the
// bytes of a step by k.
//
//   local-sgd  workers take the mean of their parameters
//   diloco     the mean of their changes is the gradient of an outer optimiser (strategy/outer.h): Nesterov's
//
// The parameters are cut into F fragments of whole tensors, exchanged in turn: fragment f after every step t = 0, 1, ..
// with t mod k = k - 1 - floor(f k / F). F = 1 is the plain form: the whole model after k, 2k, .. steps.
// v: the parameters that the workers last agreed on; w: this worker's own.
//
// 1. All workers start from rank 0's parameters: w = v.
// 2. Every step: the worker's own optimiser moves w, on the worker's own batch; the gradient is not weighted.
// 3. After a fragment's step t: d <- v - w on the fragment, and the workers begin to average d, along any route, with
//    any codec, weighted by each worker's samples since the fragment's last exchange.
// 4. Once the mean has arrived: v <- outer step from v with the mean as its gradient;  w <- v.
// 5. Go to 2, until the plan's epochs are done.
//
// With a delay D > 0, 1 .. floor(k / F), the exchange runs during the steps t + 1 .. t + D, and 4 follows step t + D
// (or the end of the epoch, if that comes first, so that nothing is in flight when a checkpoint is written). The worker
// keeps what it learnt meanwhile: w <- v + (w - w at step t). Streaming DiLoCo mixes instead, w <- a w + (1 - a) v: w
// keeps a part a of its distance from v, and a part 1 - a of what the worker learnt meanwhile is dropped. Here nothing
// is dropped: the next exchange sends all of it, once.
//
// Between exchanges workers differ: the consensus is the mean of their parameters, weighted as in 3 by the samples
// since each fragment's last exchange; it is v if the last step exchanged the whole model without delay. There is no
// extra exchange, and no outer step, at the plan's end. A user's loop (Workplace::loop) that ends waits for what is in
// flight, and the consensus is the mean as it is then.
//
// With k = 1, F = 1, no delay and plain SGD, local-sgd takes the steps of one worker with the whole batch.
// Rounds: F in k steps. Bytes sent: for every exchange of a fragment, those of one average on the route with the codec
// (Averager); in k steps, those of the whole model.
// Memory: v, d, the outer momentum and, with a delay, w at step t: each as large as the model.
// Commits: a worker's own step when its pass is over; a fragment's exchange, on each worker, with 4. An exchange that
// an abort breaks off begins again from the same numbers, which are kept; a worker that is behind takes v and the outer
// optimiser from one that is ahead. Errors: Error(usage) for more fragments than tensors and for invalid options
// (make_averager, make_outer). Sources: Stich, Local SGD converges fast and communicates little, ICLR 2019; Douillard,
// Feng, Rusu, Chhaparia, Donchev, Kuncoro, Ranzato, Szlam, Shen, DiLoCo: distributed low-communication training of
// language models, 2023; Douillard, Donchev, Rush, Kale, Charles, Garrett, Teston, Lacey, McIlroy, Shen, Rame, Szlam,
// Ranzato, Barham, Streaming DiLoCo with overlapping communication: towards a distributed free lunch, 2025 (fragments,
// delay).
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// The parameters as `count` consecutive ranges of whole tensors; each cut is at the tensor border nearest to the even
/// cut. Throws Error(usage) unless `count` is from 1 to the number of tensors.
std::vector<Range> fragments_of(const Layout& layout, std::uint32_t count);

/// Whether fragment f is exchanged after step t (from 0, over the whole run).
bool exchanges_after(const LocalOptions& options, std::uint32_t fragment, std::uint64_t step);

/// info.name is local-sgd or diloco.
std::unique_ptr<Strategy> make_local_sgd(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> local_sgd_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                  const Workload& work, int rank);

double local_sgd_rounds(const Plan& plan, double steps);

}  // namespace ripieno::strategy
