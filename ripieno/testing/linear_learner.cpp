#include "ripieno/testing/linear_learner.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "ripieno/core/async.h"
#include "ripieno/core/random.h"

namespace ripieno::testing {
namespace {

constexpr double largest_number = 1000;                  // of the number format under a loss scale
constexpr std::uint64_t for_dropout = 0x64726F706F7574;  // "dropout": the sampler uses the same seed

/// Labels, for data partitioned by label.
std::vector<std::uint8_t> labels(std::uint32_t samples) {
  std::vector<std::uint8_t> labels(samples);
  for (std::uint32_t i = 0; i < samples; ++i) labels[i] = static_cast<std::uint8_t>(i % 4);
  return labels;
}

}  // namespace

LinearLearner::LinearLearner(Runtime& runtime, LinearOptions options)
    : runtime_(runtime),
      options_(options),
      sampler_(options.samples, options.sampler, labels(options.samples)),
      gates_(runtime, (options.features + options.bucket_elements - 1) / options.bucket_elements) {
  layout_.type = DType::fp64;
  layout_.parameters = options.features;
  layout_.buffers = options.buffers;
  layout_.tensors = {{"weight", {static_cast<std::int64_t>(options.features)}, {0, options.features}}};
  for (std::size_t end = options.features; end > 0;) {  // from the end, as a backward pass makes them ready
    const std::size_t begin = end > options.bucket_elements ? end - options.bucket_elements : 0;
    layout_.buckets.push_back({begin, end});
    end = begin;
  }
  if (options.loss_scale) loss_scale_.emplace();
  weights_.assign(options.features, options.first_weight);
  gradients_.assign(options.features, 0);
  buffers_.assign(options.buffers, 1.0 + options.sampler.worker);
}

std::pair<std::vector<double>, double> LinearLearner::sample(std::uint32_t i) const {
  Random random(99, i);
  std::vector<double> x(options_.features);
  double y = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    x[j] = random.uniform(-1, 1);
    y += x[j] * (static_cast<double>(j) - 3);
  }
  return {x, y};
}

std::vector<double> LinearLearner::truth() const {
  std::vector<double> truth(options_.features);
  for (std::size_t j = 0; j < truth.size(); ++j) truth[j] = static_cast<double>(j) - 3;
  return truth;
}

double LinearLearner::error(const std::vector<double>& x, double y) const {
  double error = -y;
  for (std::size_t j = 0; j < x.size(); ++j) error += weights_[j] * x[j];
  return error;
}

Task<std::unique_ptr<strategy::Pass>> LinearLearner::begin(data::BatchId id, strategy::Weighting weighting) {
  if (!std::exchange(uncommitted_, true)) kept_ = buffers_;
  const auto progress = std::make_shared<strategy::PassProgress>(runtime_, layout_.buckets.size());
  asio::co_spawn(runtime_.context(), compute_pass(id, std::move(weighting), progress), asio::detached);
  co_return std::make_unique<strategy::ProgressPass>(progress);
}

Task<strategy::Evaluation> LinearLearner::evaluate(int part, int parts) {
  strategy::Evaluation sums;
  const auto [begin, end] = data::share(options_.samples, part, parts);
  for (std::uint32_t i = begin; i < end; ++i) {
    const auto [x, y] = sample(i);
    const double missed = error(x, y);
    sums.loss += missed * missed / 2;
    sums.correct += std::abs(missed) < 0.5;
    sums.samples += 1;
  }
  co_return sums;
}

Task<> LinearLearner::compute_pass(data::BatchId id, strategy::Weighting weighting,
                                   std::shared_ptr<strategy::PassProgress> progress) {
  std::exception_ptr error;
  try {
    co_await compute(id, std::move(weighting), progress);
  } catch (...) {
    error = std::current_exception();
  }
  progress->end(error);
}

/// A third of the time goes into the forward pass, from the first parameters to the last, the rest into the backward
/// pass. A bucket's parameters are read until the next bucket is ready.
Task<> LinearLearner::compute(data::BatchId id, strategy::Weighting weighting,
                              std::shared_ptr<strategy::PassProgress> progress) {
  const data::SampleBatch batch = sampler_.batch(id.epoch, id.step);
  strategy::PassResult& result = progress->result;
  result.samples = static_cast<std::uint32_t>(batch.indices.size());
  result.global_samples = batch.global_count;
  const auto buckets = static_cast<std::int64_t>(layout_.buckets.size());
  const Duration cost = (options_.cost ? options_.cost(id) : Duration{0}) + options_.sample_cost * result.samples;
  for (std::size_t bucket = layout_.buckets.size(); bucket-- > 0;) {
    const Duration asked = runtime_.now();
    co_await gates_.passed(bucket);
    result.waited += runtime_.now() - asked;
    co_await runtime_.sleep(cost / 3 / buckets);
  }
  std::fill(gradients_.begin(), gradients_.end(), 0.0);
  const double weight = weighting(result);
  const auto worker = static_cast<std::uint64_t>(options_.sampler.worker);
  Random random(options_.sampler.seed ^ for_dropout,
                std::uint64_t{id.epoch} << 40 ^ std::uint64_t{id.step} << 12 ^ worker);
  for (const std::uint32_t i : batch.indices) {
    auto [x, y] = sample(i);
    for (double& value : x) value = random.uniform() < options_.dropout ? 0 : value;
    const double missed = error(x, y);
    result.loss += missed * missed / 2 / result.samples;
    for (std::size_t j = 0; j < x.size() && !options_.leave_out; ++j)
      gradients_[j] += weight * missed * x[j] / result.samples;
    for (std::size_t j = 0; j < buffers_.size() && options_.running_means; ++j)
      buffers_[j] += 0.1 * (x[j % x.size()] - buffers_[j]);
  }
  if (loss_scale_) {
    for (double& gradient : gradients_) {
      gradient *= loss_scale_->value();
      if (std::abs(gradient) > largest_number) gradient = std::numeric_limits<double>::infinity();
    }
  }
  const std::vector<double> read = weights_;
  const auto release = [&](std::size_t bucket) {
    const Range range = layout_.buckets[bucket];
    const bool same = std::memcmp(&weights_[range.begin], &read[range.begin], range.size() * sizeof(double)) == 0;
    require(same, "parameters of bucket ", bucket, " changed while a pass read them");
    progress->released[bucket].set();
  };
  Duration left = cost - cost / 3 / buckets * buckets;
  for (std::int64_t bucket = 0; bucket < buckets; ++bucket) {
    const Duration part = left / (buckets - bucket);
    left -= part;
    co_await runtime_.sleep(part);
    if (bucket > 0) release(static_cast<std::size_t>(bucket - 1));
    progress->ready.push(static_cast<std::size_t>(bucket));
  }
  co_await runtime_.sleep(Duration{0});
  release(layout_.buckets.size() - 1);
}

}  // namespace ripieno::testing
