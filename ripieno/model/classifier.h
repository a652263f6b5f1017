// What the program trains: a torch::nn::Module that takes images.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace ripieno::model {

/// A classifier of images: N x C x H x W floats (of any memory format) -> N x classes logits.
class Classifier : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;

  /// For a model whose start depends on the data, e.g. a whitened first layer: how many of the first training images,
  /// without augmentation, prepare() is to be given once before training. The same ones on every rank.
  virtual std::uint32_t images_to_prepare() const { return 0; }
  virtual void prepare(const torch::Tensor& /*images*/) {}
};

}  // namespace ripieno::model
