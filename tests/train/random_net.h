// A net whose passes draw and change what they can: dropout, batch norm's statistics, counters. And a learner of it.
#pragma once

#include "tests/support/dropped_passes.h"
#include "tests/train/small_net.h"

namespace ripieno::testing {

struct RandomNet : SmallNet {
  RandomNet() { norm = register_module("norm", torch::nn::BatchNorm2d(4)); }
  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor features = torch::relu(norm(convolution(images))).flatten(1);
    return linear(torch::dropout(features, 0.3, is_training()));
  }
  torch::nn::BatchNorm2d norm{nullptr};
};

/// Besides, it counts its images by where their brightest pixel lies: a buffer that no checkpoint holds.
struct CountingNet : RandomNet {
  CountingNet() { counts = register_buffer("counts", torch::zeros({28 * 28}, torch::kInt32)); }
  torch::Tensor forward(torch::Tensor images) override {
    if (is_training()) {
      const torch::Tensor brightest = images.detach().cpu().flatten(1).argmax(1);
      counts.add_(torch::bincount(brightest, {}, 28 * 28).to(counts.device(), torch::kInt32));
    }
    return RandomNet::forward(images);
  }
  torch::Tensor counts;
};

/// A learner of its own, the same each time: the second of two workers, five steps an epoch, images cropped and
/// flipped.
struct PassJob {
  PassJob(Runtime& runtime, train::Precision precision, std::uint32_t accumulate, torch::Device device = torch::kCPU)
      : recorder(runtime, nullptr, nullptr) {
    const std::shared_ptr<data::Dataset> digits =
        data::open_dataset("digits", data::Split::train, {.train_samples = 90});
    data::SamplerOptions sampling{.seed = 3, .worker = 1, .workers = 2, .batch = 20};
    const auto loader = [&] {
      return data::Loader(digits, data::Sampler(90, sampling), {.crop_padding = 2, .flip = true}, {}, 7);
    };
    train::TorchOptions options;
    options.device = device;
    options.precision = precision;
    options.accumulate = accumulate;
    options.flat.bucket_bytes = 1000;
    options.seed = 11;
    options.worker = 1;
    torch::manual_seed(1);
    net = std::make_shared<CountingNet>();
    learner = std::make_unique<train::TorchLearner>(runtime, recorder, net, loader(), loader(), options);
  }

  /// Shows the counter that the learner's own walk does not.
  ShowMore counters() const {
    return [net = net](StateVisitor& visitor) {
      torch::Tensor counts = net->counts.cpu().clone();
      visitor.span("counts",
                   NumberSpan(std::span(counts.data_ptr<std::int32_t>(), static_cast<std::size_t>(counts.numel()))));
    };
  }

  observe::Recorder recorder;
  std::shared_ptr<CountingNet> net;
  std::unique_ptr<train::TorchLearner> learner;
};

}  // namespace ripieno::testing
