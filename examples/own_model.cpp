// Your own model in Ripieno's program: this is `ripieno`, with one more model in its zoo.
//   ./own_model list models
//   ./own_model train --set model=tiny --set batch.per_worker=32 --strategy ring -n 2
#include <torch/torch.h>

#include "apps/ripieno/program.h"
#include "ripieno/model/classifier.h"

namespace {

/// A convolution with a stride, and one linear layer.
struct Tiny : ripieno::model::Classifier {
  Tiny() {
    convolution = register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 5).stride(2)));
    linear = register_module("linear", torch::nn::Linear(8 * 12 * 12, 10));
  }
  torch::Tensor forward(torch::Tensor images) override { return linear(torch::relu(convolution(images)).flatten(1)); }
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::Linear linear{nullptr};
};

}  // namespace

int main(int argc, char** argv) {
  ripieno::model::Zoo zoo = ripieno::model::zoo();
  zoo.add({"tiny", "one convolution, one linear layer", 1, 28, 28, 10, 11738, [] { return std::make_shared<Tiny>(); }});
  return ripieno::program::run_program(argc, argv, zoo);
}
