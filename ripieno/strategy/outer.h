// The optimiser that steps on averaged differences: a federation's server, DiLoCo's outer step. Its gradient is the
// pseudo-gradient -(average of what workers changed), so that plain SGD with rate 1 takes the average itself.
//
//   fedavg, local-sgd  sgd, rate 1, no momentum: w <- w + average
//   fedavgm            sgd with momentum, rate 1: m <- momentum * m - average;  w <- w - rate * m
//   fedadam            adam (optim/adam.h, with its corrections of the first steps' bias), rate 0.01
//   diloco             sgd with Nesterov momentum, rate 0.7
//
// OuterOptions holds the momentum, the betas and epsilon, and a rate other than the strategy's own.
// Sources: McMahan et al., AISTATS 2017 (fedavg); Hsu et al., Measuring the effects of non-identical data distribution
// for federated visual classification, 2019 (fedavgm); Reddi et al., Adaptive federated optimization, ICLR 2021
// (fedadam); Douillard et al., DiLoCo: distributed low-communication training of language models, 2023.
#pragma once

#include <string_view>

#include "ripieno/optim/optimiser.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// The named strategy's outer optimiser, of `elements` parameters of `type`. Throws Error(usage) on options out of
/// range, and Error(internal) on a strategy that has none.
std::unique_ptr<optim::Optimiser> make_outer(std::string_view strategy, const OuterOptions& options,
                                             std::size_t elements, DType type);

/// The rate of its steps: options.learning_rate, or where that is 0 the strategy's own. Throws as make_outer().
double outer_rate(std::string_view strategy, const OuterOptions& options);

/// Shows its state with "outer." before the names ("outer.optimiser.step"), apart from a worker's own optimiser's.
void visit_outer(optim::Optimiser& outer, StateVisitor& visitor);

}  // namespace ripieno::strategy
