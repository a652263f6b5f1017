// The small network of airbench94 (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv:2404.00498, 2024),
// which comes from Page's ("How to train your ResNet", 2018) by way of tysam-code's hlb-CIFAR10 (2023): a frozen
// convolution that whitens 2 x 2 patches, three blocks of two convolutions, and one linear layer. 32 -> 31 -> 15 -> 7
// -> 3 -> 1 pixels.
//
//   @misc{jordan2024airbench, title = {94\% on {CIFAR-10} in 3.29 Seconds on a Single {GPU}}, author = {Keller Jordan},
//         year = {2024}, eprint = {2404.00498}, archivePrefix = {arXiv}}
#include "ripieno/model/families.h"
#include "ripieno/model/layers.h"
#include "ripieno/model/run_layers.h"
#include "ripieno/model/whitening.h"

namespace ripieno::model {
namespace {

/// Without weights, which the next layer can represent; its statistics follow the last few batches.
torch::nn::BatchNorm2d batch_norm(std::int64_t channels) {
  torch::nn::BatchNorm2d made(torch::nn::BatchNorm2dOptions(channels).eps(1e-12).momentum(0.4));
  made->weight.set_requires_grad(false);
  return made;
}

/// 3 x 3, without bias. Its first filters pass their channel on unchanged, which acts as a residual connection at the
/// start of training.
torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out) {
  torch::nn::Conv2d made = conv({.in = in, .out = out, .bias = false});
  const torch::NoGradGuard no_grad;
  torch::nn::init::dirac_(made->weight.narrow(0, 0, in));
  return made;
}

/// gelu(norm2(conv2(gelu(norm1(pool(conv1(x)))))))
struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t in, std::int64_t out) {
    conv1 = register_module("conv1", convolution(in, out));
    norm1 = register_module("norm1", batch_norm(out));
    conv2 = register_module("conv2", convolution(out, out));
    norm2 = register_module("norm2", batch_norm(out));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = torch::gelu(norm1->forward(fused::run_layers(conv1, x, true)));
    return torch::gelu(norm2->forward(fused::run_layers(conv2, y)));
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
};
TORCH_MODULE(Block);

class Airbench : public Classifier {
 public:
  Airbench() {
    whiten_ = register_module("whiten", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 24, 2)));
    whiten_->weight.set_requires_grad(false);
    std::int64_t in = 24;
    for (const std::int64_t out : {64, 256, 256}) {
      blocks_.push_back(register_module("block" + std::to_string(blocks_.size() + 1), Block(in, out)));
      in = out;
    }
    head_ = register_module("head", torch::nn::Linear(torch::nn::LinearOptions(in, 10).bias(false)));
    const torch::NoGradGuard no_grad;
    head_->weight /= head_->weight.std();
  }

  std::uint32_t images_to_prepare() const override { return 5000; }
  void prepare(const torch::Tensor& images) override {
    const torch::NoGradGuard no_grad;
    whiten_->weight.copy_(whitening_filters(images, 2));
  }

  torch::Tensor forward(torch::Tensor images) override {
    torch::Tensor x = torch::gelu(whiten_->forward(images));
    for (Block& block : blocks_) x = block->forward(x);
    x = torch::flatten(torch::max_pool2d(x, 3), 1);
    return head_->forward(x) / static_cast<double>(x.size(1));
  }

 private:
  torch::nn::Conv2d whiten_{nullptr};
  std::vector<Block> blocks_;
  torch::nn::Linear head_{nullptr};
};

}  // namespace

std::shared_ptr<Classifier> make_airbench() { return std::make_shared<Airbench>(); }

}  // namespace ripieno::model
