// A small convolutional network for 28 x 28 grey images: three unpadded convolutions, each with ReLU and pooling
// (28 -> 26 -> 13 -> 11 -> 5 -> 3 -> 1 pixels), and three linear layers.
#include "ripieno/core/error.h"
#include "ripieno/model/families.h"
#include "ripieno/model/layers.h"
#include "ripieno/model/run_layers.h"

namespace ripieno::model {
namespace {

class MnistCnn : public Classifier {
 public:
  explicit MnistCnn(double dropout) {
    for (const auto& [in, out] : {std::pair{1, 32}, {32, 128}, {128, 256}}) {
      features_->push_back(conv({.in = in, .out = out, .padding = 0}));
      features_->push_back(relu());
      features_->push_back(max_pool());
    }
    classifier_->push_back(torch::nn::Dropout(dropout));
    classifier_->push_back(torch::nn::Linear(256, 1000));
    classifier_->push_back(relu());
    classifier_->push_back(torch::nn::Linear(1000, 100));
    classifier_->push_back(relu());
    classifier_->push_back(torch::nn::Linear(100, 10));
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

std::shared_ptr<Classifier> make_mnist_cnn(double dropout) {
  if (!(dropout >= 0 && dropout < 1)) {
    fail(ErrorKind::usage, "mnist-cnn: dropout = ", dropout, "; give a number from 0 to below 1");
  }
  return std::make_shared<MnistCnn>(dropout);
}

}  // namespace ripieno::model
