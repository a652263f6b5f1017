// ResNet (He et al., "Deep residual learning for image recognition", 2016): 18 layers of basic blocks; 50 and 152 of
// bottlenecks, which halve height and width in their first convolution, as published (torchvision's do so in their
// second, with the same parameters). For 32 x 32 images the first convolution is 3 x 3 with stride 1 and no pooling
// follows it, as is usual on CIFAR. Names are torchvision's.
#include <array>

#include "ripieno/core/error.h"
#include "ripieno/model/families.h"
#include "ripieno/model/layers.h"
#include "ripieno/model/run_layers.h"

namespace ripieno::model {
namespace {

/// The projection of a block whose shape changes: a 1 x 1 convolution of x. Empty for other blocks.
torch::nn::Sequential projection(int in, int out, int stride) {
  if (stride == 1 && in == out) return nullptr;
  torch::nn::Sequential made;
  made->push_back(conv({.in = in, .out = out, .size = 1, .stride = stride, .padding = 0, .bias = false}));
  made->push_back(torch::nn::BatchNorm2d(out));
  return made;
}

/// relu(x' + bn2(conv2(relu(bn1(conv1(x)))))), where x' is x, or its projection when the shape changes.
struct BasicBlockImpl : torch::nn::Module {
  static constexpr int expansion = 1;  // channels of its result, in units of `width`

  BasicBlockImpl(int in, int width, int stride) {
    conv1 = register_module("conv1", conv({.in = in, .out = width, .stride = stride, .bias = false}));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(width));
    conv2 = register_module("conv2", conv({.in = width, .out = width, .bias = false}));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(width));
    downsample = projection(in, width, stride);
    if (downsample) register_module("downsample", downsample);
  }

  torch::Tensor forward(torch::Tensor x) {
    const torch::Tensor y = fused::run_layers(conv2, fused::run_layers(bn1, fused::run_layers(conv1, x)));
    return fused::run_layers(bn2, y, downsample ? fused::run_layers(downsample, x) : x);
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(BasicBlock);

/// The same with three convolutions: 1 x 1 to `width` channels, 3 x 3, and 1 x 1 to four times as many channels.
struct BottleneckImpl : torch::nn::Module {
  static constexpr int expansion = 4;

  BottleneckImpl(int in, int width, int stride) {
    const int out = width * expansion;
    conv1 = register_module("conv1",
                            conv({.in = in, .out = width, .size = 1, .stride = stride, .padding = 0, .bias = false}));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(width));
    conv2 = register_module("conv2", conv({.in = width, .out = width, .bias = false}));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(width));
    conv3 = register_module("conv3", conv({.in = width, .out = out, .size = 1, .padding = 0, .bias = false}));
    bn3 = register_module("bn3", torch::nn::BatchNorm2d(out));
    downsample = projection(in, out, stride);
    if (downsample) register_module("downsample", downsample);
  }

  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor y = fused::run_layers(bn1, fused::run_layers(conv1, x));
    y = fused::run_layers(conv3, fused::run_layers(bn2, fused::run_layers(conv2, y)));
    return fused::run_layers(bn3, y, downsample ? fused::run_layers(downsample, x) : x);
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr}, conv3{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr}, bn3{nullptr};
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(Bottleneck);

template <class Block>
class ResNet : public Classifier {
 public:
  /// Four stages with `blocks` blocks; the last three halve height and width and double the channels.
  ResNet(const std::array<int, 4>& blocks, InputSize form) : form_(form) {
    int in = 64;
    conv1_ =
        register_module("conv1", form == InputSize::small
                                     ? conv({.in = 3, .out = in, .bias = false})
                                     : conv({.in = 3, .out = in, .size = 7, .stride = 2, .padding = 3, .bias = false}));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(in));
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
      const int width = 64 << stage;
      for (int block = 0; block < blocks[stage]; ++block) {
        stages_[stage]->push_back(Block(in, width, stage > 0 && block == 0 ? 2 : 1));
        in = width * Block::ContainedType::expansion;
      }
      register_module("layer" + std::to_string(stage + 1), stages_[stage]);
    }
    fc_ = register_module("fc", torch::nn::Linear(in, form == InputSize::small ? 10 : published_classes));
    start_kaiming(*this);
  }

  torch::Tensor forward(torch::Tensor images) override {
    const bool small = form_ == InputSize::small;
    torch::Tensor x = fused::run_layers(bn1_, fused::run_layers(conv1_, small ? images : at_published_size(images)));
    if (!small) x = pool_->forward(x);
    for (auto& stage : stages_) x = stage->forward(x);
    return fc_->forward(torch::flatten(torch::adaptive_avg_pool2d(x, {1, 1}), 1));
  }

 private:
  InputSize form_;
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  torch::nn::MaxPool2d pool_ = overlapping_max_pool(/*padding=*/1);
  std::array<torch::nn::Sequential, 4> stages_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Classifier> make_resnet(int depth, InputSize form) {
  switch (depth) {
    case 18:
      return std::make_shared<ResNet<BasicBlock>>(std::array{2, 2, 2, 2}, form);
    case 50:
      return std::make_shared<ResNet<Bottleneck>>(std::array{3, 4, 6, 3}, form);
    case 152:
      return std::make_shared<ResNet<Bottleneck>>(std::array{3, 8, 36, 3}, form);
    default:
      fail(ErrorKind::usage, "ResNet of ", depth, " layers: 18, 50 or 152");
  }
}

}  // namespace ripieno::model
