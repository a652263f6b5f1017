// A flat model with all that a backward pass over it needs, and nets for it.
#pragma once

#include <memory>
#include <vector>

#include "ripieno/train/backward_watch.h"

namespace ripieno::testing {

struct WatchedModel {
  explicit WatchedModel(std::shared_ptr<torch::nn::Module> module, const train::FlatOptions& options = {})
      : flat(std::move(module), options), host(flat, options.memory), watch(flat, host) {}

  train::FlatModel flat;
  train::HostCopy host;
  train::BackwardWatch watch;
};

inline std::vector<float> floats_of(NumberSpan numbers) {
  const auto all = numbers.as<float>();
  return {all.begin(), all.end()};
}

/// Gives it the other's parameters.
inline void copy_parameters(torch::nn::Module& to, const torch::nn::Module& from) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : to.named_parameters()) item.value().copy_(from.named_parameters()[item.key()]);
}

/// Weights that are tied, frozen and unused.
struct OddNet : torch::nn::Module {
  OddNet() {
    first = register_module("first", torch::nn::Linear(4, 4));
    tied = register_parameter("tied", first->weight);
    frozen = register_module("frozen", torch::nn::Linear(4, 4));
    for (auto& p : frozen->parameters()) p.requires_grad_(false);
    unused = register_module("unused", torch::nn::Linear(4, 2));
    last = register_module("last", torch::nn::Linear(4, 3));
  }
  torch::Tensor forward(torch::Tensor x) {
    return last(frozen(torch::nn::functional::linear(torch::relu(first(x)), tied)));
  }
  torch::Tensor tied;
  torch::nn::Linear first{nullptr}, frozen{nullptr}, unused{nullptr}, last{nullptr};
};

}  // namespace ripieno::testing
