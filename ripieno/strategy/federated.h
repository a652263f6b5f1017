// Federated averaging: every client trains on its own data for some epochs; then the global model follows the clients'
// average, weighted by samples. Rank 0 holds the global model and is a client too. The bytes of a round do not depend
// on the number of its steps.
//
// All ranks start from rank 0's weights. Each round t = 0, 1, ..:
// 1. A fraction C of the K clients, max(1, ceil(C K)) of them, is drawn from the seed and t, on all ranks alike.
// 2. Rank 0 sends the global model w to the drawn clients: in the codec's format if it is a wire format, else in full.
// 3. Each drawn client takes the steps of `local_epochs` epochs over its shard, with an optimiser whose state stays
//    with the client from round to round. Other clients idle.
// 4. Each drawn client sends its parameters w_i through the codec, or with `deltas` its change d_i = w_i - w with error
//    feedback at the client. (Parameters go without error feedback: what the codec lost of the last model says nothing
//    about this one.)
// 5. Rank 0 averages over the drawn clients, with n_i the number of samples in client i's shard:
//    d = sum_i n_i d_i / sum_i n_i, with d_i = w_i - w where clients sent parameters.
//    The outer optimiser steps on the gradient -d (outer.h): fedavg w <- w + d, which is the weighted mean of the w_i;
//    fedavgm with momentum; fedadam with Adam. If no drawn client has samples, there is no step.
// 6. If the plan wants an evaluation, all ranks get w and evaluate it together; drawn clients also score their w_i.
// Rank 0 sends nothing to itself, so its own part as a client loses nothing to the codec. Uploads are added up in rank
// order.
//
// Batch norm's statistics travel in full, whatever the codec:
//   rank0  down with w; only rank 0's local steps change the global ones, which stay as they are while rank 0 is not
//          drawn
//   mean   down with w, up with the parameters, and averaged like them
//   local  every client keeps its own; the evaluation uses rank 0's
//
// An epoch is a client's pass over its shard: a round is `local_epochs` epochs (the last round may be shorter), whether
// the client is drawn or not. max_steps counts the steps of the client that has the most; the round that reaches the
// limit is the last for all, and ends with the epoch. A user's loop (Workplace::loop) may end within a round, whose
// steps are dropped: the model is that of the last whole round. The weights of the next round have gone out by then.
//
// Bytes a round, for parameters of n bytes down and u bytes up and statistics of b bytes: rank 0 sends n + b (local: n)
// to each drawn client but itself; each of those sends u (mean: u + b).
// Commits: a client's own step, when its pass is over; a round, at rank 0 when it has all uploads; each client's
// residual, when the client learns of that at the end of the round, where all ranks meet if rounds may be taken again
// (Workplace::regroup). State: the client's optimiser and residual; at rank 0 also the outer optimiser. The global
// model is rank 0's parameters. Sources: McMahan et al., Communication-efficient learning of deep networks from
// decentralized data, AISTATS 2017; Hsu et al., Measuring the effects of non-identical data distribution for federated
// visual classification, 2019 (fedavgm); Reddi et al., Adaptive federated optimization, ICLR 2021 (fedadam); Li et al.,
// FedBN, ICLR 2021 (local statistics).
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// `info.name` is fedavg, fedavgm or fedadam. Throws Error(usage) for a codec that cannot encode a single message
/// (powersgd).
std::unique_ptr<Strategy> make_federated(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> federated_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                  const Workload& work, int rank);

/// Rounds of a client that is drawn every time.
double federated_rounds(const Plan& plan, double steps);

}  // namespace ripieno::strategy
