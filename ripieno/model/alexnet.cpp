// AlexNet (Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural networks", 2012)
// as torchvision has it (the one-tower form of Krizhevsky, 2014), with a first convolution and poolings small enough
// for 32 x 32 images: 32 -> 16 -> 8 -> 4 -> 2 pixels.
#include "ripieno/model/families.h"
#include "ripieno/model/fused.h"
#include "ripieno/model/layers.h"

namespace ripieno {
namespace {

class AlexNet : public Classifier {
 public:
  AlexNet() {
    const auto convolution = [&](const ConvShape& shape) {
      features_->push_back(conv(shape));
      features_->push_back(relu());
    };
    convolution({.in = 3, .out = 64, .stride = 2});
    features_->push_back(max_pool());
    convolution({.in = 64, .out = 192});
    features_->push_back(max_pool());
    convolution({.in = 192, .out = 384});
    convolution({.in = 384, .out = 256});
    convolution({.in = 256, .out = 256});
    features_->push_back(max_pool());

    classifier_->push_back(torch::nn::Dropout(0.5));
    classifier_->push_back(torch::nn::Linear(256 * 2 * 2, 4096));
    classifier_->push_back(relu());
    classifier_->push_back(torch::nn::Dropout(0.5));
    classifier_->push_back(torch::nn::Linear(4096, 4096));
    classifier_->push_back(relu());
    classifier_->push_back(torch::nn::Linear(4096, 10));
    register_module("features", features_);
    register_module("classifier", classifier_);
  }

  torch::Tensor forward(torch::Tensor images) override {
    return forward_fused(classifier_, torch::flatten(forward_fused(features_, images), 1));
  }

 private:
  torch::nn::Sequential features_, classifier_;
};

}  // namespace

std::shared_ptr<Classifier> make_alexnet() { return std::make_shared<AlexNet>(); }

}  // namespace ripieno
