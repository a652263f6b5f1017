// VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015),
// configurations A, D and E, with torchvision's `features`. For 32 x 32 images, which the five poolings reduce to one
// pixel, one linear layer follows; in the published form three.
#include "ripieno/core/error.h"
#include "ripieno/model/families.h"
#include "ripieno/model/layers.h"
#include "ripieno/model/run_layers.h"

namespace ripieno::model {
namespace {

constexpr int pool = 0;  // stands in the list of channels for a pooling

std::vector<int> channels_of(int depth) {
  switch (depth) {
    case 11:
      return {64, pool, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool};
    case 16:
      return {64, 64, pool, 128, 128, pool, 256, 256, 256, pool, 512, 512, 512, pool, 512, 512, 512, pool};
    case 19:
      return {64,  64,  pool, 128, 128,  pool, 256, 256, 256, 256, pool,
              512, 512, 512,  512, pool, 512,  512, 512, 512, pool};
    default:
      fail(ErrorKind::usage, "VGG of ", depth, " layers: 11, 16 or 19");
  }
}

class Vgg : public Classifier {
 public:
  Vgg(const std::vector<int>& channels, VggNorm norm, InputSize form) : form_(form) {
    int in = 3;
    for (const int out : channels) {
      if (out == pool) {
        features_->push_back(max_pool());
        continue;
      }
      features_->push_back(conv({.in = in, .out = out}));
      if (norm == VggNorm::batch) features_->push_back(torch::nn::BatchNorm2d(out));
      features_->push_back(relu());
      in = out;
    }
    register_module("features", features_);
    form == InputSize::small ? end_small(in) : end_published(in);
    start_kaiming(*this);
    for (const auto& layer : modules(/*include_self=*/false)) {
      if (auto* linear = layer->as<torch::nn::Linear>()) {
        torch::nn::init::normal_(linear->weight, 0, 0.01);
        torch::nn::init::zeros_(linear->bias);
      }
    }
  }

  torch::Tensor forward(torch::Tensor images) override {
    if (form_ == InputSize::small) return linear_->forward(torch::flatten(fused::run_layers(features_, images), 1));
    return fused::run_layers(classifier_, torch::flatten(fused::run_layers(features_, at_published_size(images)), 1));
  }

 private:
  void end_small(int channels) { linear_ = register_module("classifier", torch::nn::Linear(channels, 10)); }

  void end_published(int channels) {
    constexpr int pixels = 7 * 7, width = 4096;
    classifier_->push_back(torch::nn::Linear(channels * pixels, width));
    classifier_->push_back(relu());
    classifier_->push_back(torch::nn::Dropout(0.5));
    classifier_->push_back(torch::nn::Linear(width, width));
    classifier_->push_back(relu());
    classifier_->push_back(torch::nn::Dropout(0.5));
    classifier_->push_back(torch::nn::Linear(width, published_classes));
    register_module("classifier", classifier_);
  }

  InputSize form_;
  torch::nn::Sequential features_, classifier_;
  torch::nn::Linear linear_{nullptr};
};

}  // namespace

std::shared_ptr<Classifier> make_vgg(int depth, VggNorm norm, InputSize form) {
  return std::make_shared<Vgg>(channels_of(depth), norm, form);
}

}  // namespace ripieno::model
