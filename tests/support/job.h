// A job in virtual time: one strategy of the registry, some workers, one linear learner each.
#pragma once

#include <string_view>
#include <vector>

#include "ripieno/testing/trial.h"

namespace ripieno::testing {

struct Job : Trial {
  Job(std::string_view strategy, int workers, strategy::Plan plan, LinearOptions learner = {},
      std::uint32_t global_batch = 16, transport::SimulatedOptions network = {})
      : Trial(strategy::find_strategy(strategy), workers, plan, learner, global_batch, network) {}
};

inline strategy::Plan sgd(std::uint32_t epochs, double rate = 0.1, double momentum = 0.9) {
  strategy::Plan plan;
  plan.epochs = epochs;
  plan.optimiser.momentum = momentum;
  plan.learning_rate.base = rate;
  return plan;
}

/// What one worker alone ends with.
inline std::vector<double> single(const strategy::Plan& plan, LinearOptions learner = {}, std::uint32_t batch = 16) {
  return train_alone(plan, learner, batch);
}

}  // namespace ripieno::testing
