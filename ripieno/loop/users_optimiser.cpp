#include "ripieno/loop/users_optimiser.h"

#include "ripieno/core/error.h"

namespace ripieno::loop {
namespace {

template <class Options>
optim::OptimiserOptions adam_on_servers(const char* name, const Options& options) {
  if (options.amsgrad()) {
    fail(ErrorKind::usage, "parameter servers step in place of your optimiser, and cannot with amsgrad; leave it off");
  }
  optim::OptimiserOptions made;
  made.name = name;
  std::tie(made.beta1, made.beta2) = options.betas();
  made.epsilon = options.eps();
  made.weight_decay = options.weight_decay();
  return made;
}

optim::OptimiserOptions sgd_on_servers(const torch::optim::SGDOptions& options) {
  if (options.dampening() != 0) {
    fail(ErrorKind::usage,
         "parameter servers step in place of your optimiser, and cannot with dampening = ", options.dampening(),
         "; leave it at 0");
  }
  optim::OptimiserOptions made;
  made.momentum = options.momentum();
  made.nesterov = options.nesterov();
  made.weight_decay = options.weight_decay();
  return made;
}

optim::OptimiserOptions options_on_servers(torch::optim::Optimizer& optimiser) {
  if (optimiser.param_groups().size() != 1) {
    fail(ErrorKind::usage,
         "parameter servers step in place of your optimiser on parts of the model that know no "
         "groups, and it has ",
         optimiser.param_groups().size(), " groups; make it with one");
  }
  const torch::optim::OptimizerOptions& options = optimiser.param_groups()[0].options();
  using namespace torch::optim;
  if (dynamic_cast<SGD*>(&optimiser)) return sgd_on_servers(static_cast<const SGDOptions&>(options));
  if (dynamic_cast<AdamW*>(&optimiser)) return adam_on_servers("adamw", static_cast<const AdamWOptions&>(options));
  if (dynamic_cast<Adam*>(&optimiser)) return adam_on_servers("adam", static_cast<const AdamOptions&>(options));
  fail(ErrorKind::usage,
       "parameter servers step in place of your optimiser, and know SGD, Adam and AdamW; take one of "
       "these, or a strategy whose workers step themselves");
}

std::vector<torch::Tensor> parameters_of(torch::optim::Optimizer& optimiser) {
  std::vector<torch::Tensor> all;
  for (const auto& group : optimiser.param_groups())
    all.insert(all.end(), group.params().begin(), group.params().end());
  return all;
}

std::vector<double> rates_of(torch::optim::Optimizer& optimiser) {
  std::vector<double> all;
  try {
    for (const auto& group : optimiser.param_groups()) all.push_back(group.options().get_lr());
  } catch (const c10::Error&) {  // LibTorch's way to say that the options have none
    return {};
  }
  return all;
}

}  // namespace

UsersOptimiser users_optimiser(torch::optim::Optimizer& optimiser) {
  if (dynamic_cast<torch::optim::LBFGS*>(&optimiser)) {
    fail(ErrorKind::usage,
         "the optimiser is LBFGS, which computes the loss again within a step, on gradients that "
         "nobody averages; take another");
  }
  return {[&] { optimiser.step(); }, [&] { return rates_of(optimiser); }, [&] { return options_on_servers(optimiser); },
          [&] { return parameters_of(optimiser); }};
}

void UsersSteps::update(std::size_t, NumberSpan, NumberSpan, double) { step_(); }

}  // namespace ripieno::loop
