// Helpers for layers that the families share. Internal to model/.
#pragma once

#include <torch/torch.h>

namespace ripieno::model {

/// A square convolution; by default 3 x 3, keeping height and width.
struct ConvShape {
  std::int64_t in = 0, out = 0, size = 3, stride = 1, padding = 1;
  bool bias = true;
};
inline torch::nn::Conv2d conv(const ConvShape& s) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(s.in, s.out, s.size).stride(s.stride).padding(s.padding).bias(s.bias));
}

/// In place, since its input is not needed again.
inline torch::nn::ReLU relu() { return torch::nn::ReLU(torch::nn::ReLUOptions(true)); }

/// 2 x 2, stride 2, rounding down.
inline torch::nn::MaxPool2d max_pool() { return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)); }

/// 3 x 3, stride 2: the published networks' poolings overlap.
inline torch::nn::MaxPool2d overlapping_max_pool(std::int64_t padding = 0) {
  return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(padding));
}

inline constexpr std::int64_t published_side = 224, published_classes = 1000;  // of networks in their published form

/// Images resized bilinearly to the published size, 224 x 224.
inline torch::Tensor at_published_size(const torch::Tensor& images) {
  if (images.size(2) == published_side && images.size(3) == published_side) return images;
  if (images.size(0) == 0) return images.new_empty({0, images.size(1), published_side, published_side});
  return torch::upsample_bilinear2d(images, {published_side, published_side}, /*align_corners=*/false);
}

/// Initialises convolutions as torchvision does for VGG and ResNet: normal weights whose variance preserves that of
/// gradients through a ReLU (He et al., 2015), biases 0. Call it in a model's constructor once all layers are
/// registered.
inline void start_kaiming(torch::nn::Module& model) {
  for (const auto& layer : model.modules(/*include_self=*/false)) {
    if (auto* convolution = layer->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
      if (convolution->bias.defined()) torch::nn::init::zeros_(convolution->bias);
    }
  }
}

}  // namespace ripieno::model
