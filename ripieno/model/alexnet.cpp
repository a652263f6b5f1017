// AlexNet (Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural networks", 2012)
// as in torchvision (the one-tower form of Krizhevsky, 2014). For 32 x 32 images its first convolution and its poolings
// are smaller: 32 -> 16 -> 8 -> 4 -> 2 pixels instead of 224 -> 55 -> 27 -> 13 -> 6 in the published form.
#include "ripieno/model/families.h"
#include "ripieno/model/layers.h"
#include "ripieno/model/run_layers.h"

namespace ripieno::model {
namespace {

class AlexNet : public Classifier {
 public:
  explicit AlexNet(InputSize form) : form_(form) {
    const bool small = form == InputSize::small;
    const auto convolution = [&](const ConvShape& shape) {
      features_->push_back(conv(shape));
      features_->push_back(relu());
    };
    const auto pool = [&] { features_->push_back(small ? max_pool() : overlapping_max_pool()); };
    convolution(small ? ConvShape{.in = 3, .out = 64, .stride = 2}
                      : ConvShape{.in = 3, .out = 64, .size = 11, .stride = 4, .padding = 2});
    pool();
    convolution(small ? ConvShape{.in = 64, .out = 192} : ConvShape{.in = 64, .out = 192, .size = 5, .padding = 2});
    pool();
    convolution({.in = 192, .out = 384});
    convolution({.in = 384, .out = 256});
    convolution({.in = 256, .out = 256});
    pool();

    const int side = small ? 2 : 6;
    classifier_->push_back(torch::nn::Dropout(0.5));
    classifier_->push_back(torch::nn::Linear(256 * side * side, 4096));
    classifier_->push_back(relu());
    classifier_->push_back(torch::nn::Dropout(0.5));
    classifier_->push_back(torch::nn::Linear(4096, 4096));
    classifier_->push_back(relu());
    classifier_->push_back(torch::nn::Linear(4096, small ? 10 : published_classes));
    register_module("features", features_);
    register_module("classifier", classifier_);
  }

  torch::Tensor forward(torch::Tensor images) override {
    if (form_ == InputSize::published) images = at_published_size(images);
    return fused::run_layers(classifier_, torch::flatten(fused::run_layers(features_, images), 1));
  }

 private:
  InputSize form_;
  torch::nn::Sequential features_, classifier_;
};

}  // namespace

std::shared_ptr<Classifier> make_alexnet(InputSize form) { return std::make_shared<AlexNet>(form); }

}  // namespace ripieno::model
