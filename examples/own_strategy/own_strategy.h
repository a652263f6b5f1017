// Elastic averaging SGD (EASGD), a strategy that Ripieno does not have. Workers train on their own, held together by
// elastic forces to a centre that follows them: more is explored than with one set of weights, for a part of the bytes.
//
// 1. All P workers and the centre c start from rank 0's parameters. Every worker keeps a copy of c, all the same.
// 2. Worker r takes its optimiser's step on its own gradient:  x_r <- x_r - rate * g_r(x_r).
// 3. In every period-th step the elastic force on x_r as it was before 2 moves both ends:
//      x_r <- x_r - alpha_r (x_r - c),   c <- c + sum of alpha_r (x_r - c)
//    with alpha_r = beta n_r / n for n_r of the step's n samples: the paper's alpha = beta / P where batches are equal.
// 4. Go to 2, until the plan's epochs are done. The centre is the consensus.
//
// The period is the plan's local.steps; beta is the paper's 0.9. A lossy codec acts on the sum alone.
// Bytes: the route's and the codec's for all parameters, once in a period. Rounds: the route's, once in a period.
// Commits: a force commits when the sum of all is in. A lost worker ends the job on all.
// Source: Zhang, Choromanska, LeCun, Deep learning with elastic averaging SGD, NeurIPS 2015, equations 2 and 3.
#pragma once

#include "ripieno/strategy/registry.h"

namespace own {

/// What it promises. It is not exact, as it takes other steps than one worker, and its workers do not agree: only their
/// copies of the centre do.
ripieno::StrategyInfo easgd();

}  // namespace own
