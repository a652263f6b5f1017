// VGG, configuration A (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition",
// 2015) for 32 x 32 images: torchvision's `features`, which five poolings end at one pixel, and one linear layer.
#include "ripieno/model/families.h"
#include "ripieno/model/fused.h"
#include "ripieno/model/layers.h"

namespace ripieno {
namespace {

class Vgg : public Classifier {
 public:
  Vgg(const std::vector<int>& channels, VggNorm norm) {
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
    classifier_ = register_module("classifier", torch::nn::Linear(in, 10));
    start_kaiming(*this);
    torch::nn::init::normal_(classifier_->weight, 0, 0.01);
    torch::nn::init::zeros_(classifier_->bias);
  }

  torch::Tensor forward(torch::Tensor images) override {
    return classifier_->forward(torch::flatten(forward_fused(features_, images), 1));
  }

  static constexpr int pool = 0;  // in place of a number of channels

 private:
  torch::nn::Sequential features_;
  torch::nn::Linear classifier_{nullptr};
};

}  // namespace

std::shared_ptr<Classifier> make_vgg11(VggNorm norm) {
  constexpr int pool = Vgg::pool;
  return std::make_shared<Vgg>(
      std::vector<int>{64, pool, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool}, norm);
}

}  // namespace ripieno
