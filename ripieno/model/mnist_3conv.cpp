// A network for 28 x 28 grey images, smaller and faster than mnist-cnn: three unpadded convolutions with ReLU, the
// first two of stride 2 instead of pooling (28 -> 12 -> 5 -> 3 pixels), and two linear layers. It has no dropout, so
// its gradients depend on the weights and the batch alone.
#include "ripieno/model/families.h"
#include "ripieno/model/layers.h"
#include "ripieno/model/run_layers.h"

namespace ripieno::model {
namespace {

class Mnist3Conv : public Classifier {
 public:
  Mnist3Conv() {
    const auto convolution = [&](const ConvShape& shape) {
      features_->push_back(conv(shape));
      features_->push_back(relu());
    };
    convolution({.in = 1, .out = 16, .size = 5, .stride = 2, .padding = 0});
    convolution({.in = 16, .out = 32, .stride = 2, .padding = 0});
    convolution({.in = 32, .out = 64, .padding = 0});
    classifier_->push_back(torch::nn::Linear(64 * 3 * 3, 64));
    classifier_->push_back(relu());
    classifier_->push_back(torch::nn::Linear(64, 10));
    register_module("features", features_);
    register_module("classifier", classifier_);
  }

  torch::Tensor forward(torch::Tensor images) override {
    return fused::run_layers(classifier_, torch::flatten(fused::run_layers(features_, images), 1));
  }

 private:
  torch::nn::Sequential features_, classifier_;
};

}  // namespace

std::shared_ptr<Classifier> make_mnist_3conv() { return std::make_shared<Mnist3Conv>(); }

}  // namespace ripieno::model
