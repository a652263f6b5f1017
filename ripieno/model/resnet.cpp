// ResNet (He et al., "Deep residual learning for image recognition", 2016) of basic blocks. For 32 x 32 images the
// first convolution is 3 x 3 with stride 1 and no pooling follows it, as is usual on CIFAR; all else is torchvision's.
#include <array>

#include "ripieno/model/families.h"
#include "ripieno/model/fused.h"
#include "ripieno/model/layers.h"

namespace ripieno {
namespace {

/// relu(x' + bn2(conv2(relu(bn1(conv1(x)))))), where x' is x, or its projection when the shape changes.
struct BasicBlockImpl : torch::nn::Module {
  BasicBlockImpl(int in, int out, int stride) {
    conv1 = register_module("conv1", conv({.in = in, .out = out, .stride = stride, .bias = false}));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(out));
    conv2 = register_module("conv2", conv({.in = out, .out = out, .bias = false}));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(out));
    if (stride == 1 && in == out) return;
    downsample = torch::nn::Sequential();
    downsample->push_back(conv({.in = in, .out = out, .size = 1, .stride = stride, .padding = 0, .bias = false}));
    downsample->push_back(torch::nn::BatchNorm2d(out));
    register_module("downsample", downsample);
  }

  torch::Tensor forward(torch::Tensor x) {
    const torch::Tensor y = forward_fused(conv2, forward_fused(bn1, forward_fused(conv1, x)));
    return forward_fused(bn2, y, downsample.is_empty() ? x : forward_fused(downsample, x));
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(BasicBlock);

class ResNet : public Classifier {
 public:
  /// Four stages of `blocks` each; the later three halve height and width and double the channels.
  explicit ResNet(const std::array<int, 4>& blocks) {
    int in = 64;
    conv1_ = register_module("conv1", conv({.in = 3, .out = in, .bias = false}));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(in));
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
      const int out = 64 << stage;
      for (int block = 0; block < blocks[stage]; ++block) {
        stages_[stage]->push_back(BasicBlock(in, out, stage > 0 && block == 0 ? 2 : 1));
        in = out;
      }
      register_module("layer" + std::to_string(stage + 1), stages_[stage]);
    }
    fc_ = register_module("fc", torch::nn::Linear(in, 10));
    start_kaiming(*this);
  }

  torch::Tensor forward(torch::Tensor images) override {
    torch::Tensor x = forward_fused(bn1_, forward_fused(conv1_, images));
    for (auto& stage : stages_) x = stage->forward(x);
    return fc_->forward(torch::flatten(torch::adaptive_avg_pool2d(x, {1, 1}), 1));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> stages_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Classifier> make_resnet18() { return std::make_shared<ResNet>(std::array{2, 2, 2, 2}); }

}  // namespace ripieno
