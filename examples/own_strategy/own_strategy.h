// Elastic averaging SGD (EASGD) between pairs of workers, a strategy that Ripieno does not have. The two of a pair
// train as one; the pairs train on their own, held together by elastic forces to a centre that follows them: more is
// explored than with one set of weights, for a part of the bytes.
//
// 1. All P workers and the centre c start from rank 0's parameters. Every worker keeps a copy of c, all the same. Ranks
//    2g and 2g + 1 are pair g, with a communicator of their own (the last may be alone).
// 2. The workers of pair g tell each other their batches' samples, n_r of n_g, average their gradients, and take the
//    same optimiser's step:  x_g <- x_g - rate * sum over the pair of n_r/n_g g_r(x_g).
// 3. In every period-th step the elastic force on x_g as it was before 2 moves both ends:
//      x_g <- x_g - alpha_g (x_g - c),   c <- c + sum over the pairs of alpha_g (x_g - c)
//    with alpha_g = beta n_g / n for n_g of the step's n samples: the paper's alpha = beta / P for P pairs of equal
//    batches. Each worker contributes n_r/n_g of its pair's force.
// 4. Go to 2, until the plan's epochs are done. The centre is the consensus.
//
// The period is the plan's local.steps; beta is the paper's 0.9. A lossy codec acts on the sum of 3 alone.
// Bytes: the route's and the codec's for all parameters, once in a period; within a pair a ring's, in full, in every
// step.
// Commits: a step, on each worker, when the pair's average and, in a period's last, the sum of the forces are in.
// Source: Zhang, Choromanska, LeCun, Deep learning with elastic averaging SGD, NeurIPS 2015, equations 2 and 3.
#pragma once

#include "ripieno/strategy/registry.h"

namespace own {

/// What it promises. It is not exact, as it takes other steps than one worker, and its workers do not agree: only their
/// copies of the centre do.
ripieno::strategy::StrategyInfo easgd();

}  // namespace own
