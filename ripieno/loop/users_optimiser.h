// What agree() needs of a user's own optimiser, of LibTorch or of Python.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "ripieno/optim/optimiser.h"

namespace ripieno::loop {

struct UsersOptimiser {
  /// Steps on the parameters' gradients. On the loop's thread, or on another that waits for the group.
  std::function<void()> step;
  /// The present learning rates, one for each group of parameters; none of an optimiser that has none.
  std::function<std::vector<double>()> rates;
  /// The optimiser with which parameter servers do the same on a part of the model. Throws Error(usage), with the
  /// reason, if they cannot.
  std::function<optim::OptimiserOptions()> on_servers;
  /// The parameters that it steps on.
  std::function<std::vector<torch::Tensor>()> parameters;
};

/// `optimiser` must outlive what is returned. Throws Error(usage) for one that needs a closure (LBFGS).
UsersOptimiser users_optimiser(torch::optim::Optimizer& optimiser);

/// Steps by the user's optimiser, always on the whole model. Its state stays the user's.
class UsersSteps final : public optim::Optimiser {
 public:
  explicit UsersSteps(std::function<void()> step) : step_(std::move(step)) {}

  void begin_step() override {}
  void update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) override;
  bool by_matrices() const override { return true; }
  void visit(StateVisitor&) override {}

 private:
  std::function<void()> step_;
};

}  // namespace ripieno::loop
