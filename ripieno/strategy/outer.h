// The optimiser that steps on averaged differences: at the server of federated averaging, and DiLoCo's outer step. Its
// gradient is the pseudo-gradient -(average of the workers' changes), so that plain SGD with rate 1 adds the average
// itself.
//
//   fedavg, local-sgd  sgd, rate 1, no momentum: w <- w + average
//   fedavgm            sgd with momentum, rate 1: m <- momentum * m - average;  w <- w - rate * m
//   fedadam            adam (optim/adam.h), rate 0.01. Its corrections of the first steps' bias are not the paper's,
//                      whose second moment starts at epsilon^2 instead: the first round's step is 1 (|d| far above
//                      epsilon) to 20 times (far below) the paper's
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

/// The named strategy's outer optimiser, for `elements` parameters of `type`. Throws Error(usage) on options out of
/// range, and Error(internal) for a strategy that has no outer optimiser.
std::unique_ptr<optim::Optimiser> make_outer(std::string_view strategy, const OuterOptions& options,
                                             std::size_t elements, DType type);

/// The learning rate of its steps: options.learning_rate, or the strategy's own if that is 0. Throws as make_outer().
double outer_rate(std::string_view strategy, const OuterOptions& options);

/// Shows its state with "outer." before the names ("outer.optimiser.step"), to tell it from a worker's own optimiser.
void visit_outer(optim::Optimiser& outer, StateVisitor& visitor);

}  // namespace ripieno::strategy
