#include "ripieno/model/initialise.h"

#include <torch/torch.h>

namespace ripieno::model {
namespace {

void draw(torch::Tensor weight, Initialisation how) {
  switch (how) {
    case Initialisation::standard:
      return;
    case Initialisation::glorot:
      torch::nn::init::xavier_uniform_(std::move(weight));
      return;
    case Initialisation::he:
      torch::nn::init::kaiming_normal_(std::move(weight), 0, torch::kFanIn, torch::kReLU);
      return;
    case Initialisation::orthogonal:
      torch::nn::init::orthogonal_(std::move(weight));
      return;
  }
}

}  // namespace

void initialise(torch::nn::Module& module, Initialisation how) {
  if (how == Initialisation::standard) return;
  for (const auto& layer : module.modules()) {
    if (!layer->as<torch::nn::Conv2d>() && !layer->as<torch::nn::Linear>()) continue;
    for (auto& parameter : layer->named_parameters(/*recurse=*/false)) {
      if (!parameter.value().requires_grad()) continue;
      if (parameter.key() == "weight") draw(parameter.value(), how);
      if (parameter.key() == "bias") torch::nn::init::zeros_(parameter.value());
    }
  }
}

}  // namespace ripieno::model
