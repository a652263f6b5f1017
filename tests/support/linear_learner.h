// A learner without LibTorch: linear regression in double precision on made-up data. Exact enough to compare weights of P
// workers with those of one, quick enough for thousands of steps in virtual time.
#pragma once

#include <algorithm>
#include <vector>

#include "ripieno/core/random.h"
#include "ripieno/data/sampler.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::testing {

struct LinearOptions {
  std::uint32_t samples = 103;
  std::size_t features = 13;
  std::size_t buffers = 0;
  std::size_t bucket_elements = 5;
  SamplerOptions sampler;
  Duration sample_cost{0};    ///< charged for each sample of a pass
  bool leave_out = false;     ///< plant a fault: this worker's gradient is dropped
};

class LinearLearner final : public Learner {
 public:
  LinearLearner(Runtime& runtime, LinearOptions options)
      : runtime_(runtime), options_(options), sampler_(options.samples, options.sampler) {
    layout_.type = DType::fp64;
    layout_.parameters = options.features;
    layout_.buffers = options.buffers;
    layout_.tensors = {{"weight", {static_cast<std::int64_t>(options.features)}, {0, options.features}}};
    for (std::size_t end = options.features; end > 0;) {  // from the end, as a backward pass makes them ready
      const std::size_t begin = end > options.bucket_elements ? end - options.bucket_elements : 0;
      layout_.buckets.push_back({begin, end});
      end = begin;
    }
    weights_.assign(options.features, 0);
    gradients_.assign(options.features, 0);
    buffers_.assign(options.buffers, 1.0 + options.sampler.worker);
  }

  const Layout& layout() const override { return layout_; }
  FloatSpan parameters() override { return FloatSpan(weights_); }
  FloatSpan gradients() override { return FloatSpan(gradients_); }
  FloatSpan buffers() override { return FloatSpan(buffers_); }
  std::uint32_t steps_per_epoch() const override { return sampler_.steps(); }
  std::uint32_t samples_per_epoch() const override { return sampler_.samples(); }

  Task<std::unique_ptr<Pass>> begin(BatchId id) override {
    const SampleBatch batch = sampler_.batch(id.epoch, id.step);
    std::fill(gradients_.begin(), gradients_.end(), 0.0);
    PassResult result{0, static_cast<std::uint32_t>(batch.indices.size()), batch.global_count};
    for (const std::uint32_t i : batch.indices) {
      const auto [x, y] = sample(i);
      double error = -y;
      for (std::size_t j = 0; j < x.size(); ++j) error += weights_[j] * x[j];
      result.loss += error * error / 2 / result.samples;
      for (std::size_t j = 0; j < x.size() && !options_.leave_out; ++j) gradients_[j] += error * x[j] / result.samples;
    }
    co_await runtime_.sleep(options_.sample_cost * result.samples);
    co_return std::make_unique<LinearPass>(layout_.buckets.size(), result);
  }

  Task<Evaluation> evaluate(int part, int parts) override {
    Evaluation sums;
    const auto [begin, end] = share(options_.samples, part, parts);
    for (std::uint32_t i = begin; i < end; ++i) {
      const auto [x, y] = sample(i);
      double error = -y;
      for (std::size_t j = 0; j < x.size(); ++j) error += weights_[j] * x[j];
      sums.loss += error * error / 2;
      sums.correct += std::abs(error) < 0.5;
      sums.samples += 1;
    }
    co_return sums;
  }

 private:
  class LinearPass final : public Pass {
   public:
    LinearPass(std::size_t buckets, PassResult result) : buckets_(buckets), result_(result) {}
    Task<std::optional<std::size_t>> next_bucket() override {
      if (next_ == buckets_) co_return std::nullopt;
      co_return next_++;
    }
    Task<PassResult> finish() override { co_return result_; }

   private:
    std::size_t buckets_, next_ = 0;
    PassResult result_;
  };

  std::pair<std::vector<double>, double> sample(std::uint32_t i) const {
    Random random(99, i);
    std::vector<double> x(options_.features);
    double y = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      x[j] = random.uniform(-1, 1);
      y += x[j] * (static_cast<double>(j) - 3);
    }
    return {x, y};
  }

  Runtime& runtime_;
  LinearOptions options_;
  Sampler sampler_;
  Layout layout_;
  std::vector<double> weights_, gradients_, buffers_;
};

}  // namespace ripieno::testing
