// The interface of the models that the program trains.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace ripieno::model {

/// A classifier of images: N x C x H x W floats (of any memory format) -> N x classes logits.
class Classifier : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;

  /// For a model whose initial weights depend on data, e.g. a whitened first layer: prepare() is called once before
  /// training with so many of the first training images, without augmentation, the same on every rank.
  virtual std::uint32_t images_to_prepare() const { return 0; }
  virtual void prepare(const torch::Tensor& /*images*/) {}
};

}  // namespace ripieno::model
