// Federated averaging: rank 0 holds the global model and is one of the clients as well; every client trains on data of
// its own for some epochs, and the model follows the clients' average, weighted by samples. Bytes a round do not depend
// on the number of steps in it.
//
// All ranks start from rank 0's weights. Each round t = 0, 1, ..:
// 1. A fraction C of the K clients is drawn, max(1, ceil(C K)) of them: on all ranks alike, from the seed and t.
// 2. Rank 0 sends the global model w to the drawn clients: in the codec's format if it is a wire format, else in full.
// 3. Each of them takes the steps of `local_epochs` epochs over its shard, with an optimiser whose state stays with the
//    client from round to round. Clients that were not drawn idle.
// 4. Each sends its parameters w_i through the codec, or with `deltas` what it changed, d_i = w_i - w, with error
//    feedback at the client. (Parameters go without: what was lost of the last model has nothing to do with this one.)
// 5. Rank 0 averages over the drawn clients, n_i being the samples of client i's shard:
//    d = sum_i n_i d_i / sum_i n_i, where d_i = w_i - w if parameters came.
//    The outer optimiser steps on the gradient -d (outer.h): fedavg w <- w + d, which is the weighted mean of the w_i;
//    fedavgm with momentum; fedadam with Adam. Where no drawn client has samples there is no step.
// 6. Where the plan wants an evaluation, all ranks get w and evaluate it together; drawn clients also score their w_i.
// Rank 0 sends itself nothing, and as a client loses nothing to the codec. Uploads are added up in the order of ranks.
//
// Batch norm's statistics travel in full, whatever the codec:
//   rank0  down with w; only rank 0's local steps change the model's. They stay while rank 0 is not drawn
//   mean   down with w, up with the parameters, and averaged like them
//   local  every client keeps its own; rank 0's serve the evaluation
//
// Epochs are a client's: a round is `local_epochs` of them (the last may be shorter), drawn or not. max_steps counts
// the steps that the client with the most has had time for; the round in which that limit is reached is the last for
// all, and ends with the epoch.
//
// Bytes a round for n bytes of parameters as downloaded, u as uploaded, b of statistics: rank 0 sends n + b (local: n)
// to each drawn client but itself; each of those sends u (mean: u + b).
// Commits: a client's own step when its pass is over; a round at rank 0 when it has all uploads, and with it each
// client's residual, when it learns that: at the round's end, where all meet if a round may be taken again
// (Workplace::regroup). State: the client's optimiser and residual; at rank 0 the outer optimiser's. The global model
// is rank 0's parameters. Sources: McMahan et al., Communication-efficient learning of deep networks from decentralized
// data, AISTATS 2017; Hsu et al., Measuring the effects of non-identical data distribution for federated visual
// classification, 2019 (fedavgm); Reddi et al., Adaptive federated optimization, ICLR 2021 (fedadam); Li et al., FedBN,
// ICLR 2021 (local statistics).
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// `info.name` is fedavg, fedavgm or fedadam. Throws Error(usage) where the codec cannot be sent (powersgd).
std::unique_ptr<Strategy> make_federated(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> federated_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                  const Workload& work, int rank);

/// Of a client that is drawn every time.
double federated_rounds(const Plan& plan, double steps);

}  // namespace ripieno::strategy
