// The state of a TorchLearner and its work with LibTorch: forward and backward over a batch, evaluation. Internal to
// torch_learner.cpp.
#pragma once

#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "ripieno/data/prefetch.h"
#include "ripieno/numeric/numbers.h"
#include "ripieno/train/backward_watch.h"
#include "ripieno/train/gate_watch.h"
#include "ripieno/train/gradient_loan.h"
#include "ripieno/train/host_copy.h"
#include "ripieno/train/slowdown.h"
#include "ripieno/train/torch_error.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno::train {

struct PassTimes {
  Duration read{0}, forward{0}, backward{0}, waited{0};
  /// For a trace: reading, and forward and backward of each part, numbered by step; within forward, waits at gates,
  /// numbered by bucket.
  std::vector<observe::Span> spans;
};

inline std::string shape_of(torch::IntArrayRef sizes) {
  std::string all;
  for (const std::int64_t size : sizes) all += text(all.empty() ? "" : "x", size);
  return all.empty() ? "a number" : all;
}

/// Shared with running passes.
struct TorchLearner::State {
  using Clock = std::chrono::steady_clock;  // for the compute thread; virtual time charges a stated cost instead
  static Duration since(Clock::time_point start) { return std::chrono::duration_cast<Duration>(Clock::now() - start); }

  State(Runtime& runtime, observe::Recorder& recorder, std::shared_ptr<model::Classifier> model, data::Loader train,
        data::Loader test, TorchOptions options)
      : runtime(runtime),
        recorder(recorder),
        model(std::move(model)),
        train(std::move(train)),
        test(std::move(test)),
        options(options),
        type(options.precision == Precision::fp64 ? torch::kFloat64 : torch::kFloat32) {
    compute_in(*this->model, type);
    if (!this->options.device.is_cpu()) this->model->to(this->options.device);
    if (this->options.device.is_cuda())
      at::globalContext().setDeterministicCuDNN(true);  // so that a rerun repeats a run
    flat = std::make_unique<FlatModel>(this->model, options.flat);
    host = std::make_unique<HostCopy>(*flat, options.flat.memory);
    backward = std::make_unique<BackwardWatch>(*flat, *host);
    gates = std::make_unique<Gates>(runtime, flat->layout().buckets.size());
    require(options.numbers || options.replay, "a learner without numbers that is no replay");
    if (options.precision == Precision::fp16) loss_scale.emplace();
    if (this->options.replay) {
      require(this->options.replay->ready.size() == flat->layout().buckets.size(), "a profile of ",
              this->options.replay->ready.size(), " buckets for a layout of ", flat->layout().buckets.size());
      backward->zero_gradients();
    } else if (!runtime.is_virtual()) {
      prefetch.emplace(this->train);
    }
  }

  /// As strategies see the numbers.
  NumberSpan shown(NumberSpan numbers) const {
    return options.numbers ? numbers : NumberSpan(nullptr, numbers.count, numbers.type);
  }

  torch::Tensor images(data::Batch& batch, std::size_t begin, std::size_t end) const {
    const data::ImageShape shape = train.dataset().shape();
    const std::size_t count = end - begin;
    const torch::Tensor pixels = torch::from_blob(
        batch.pixels.data() + begin * shape.pixels(),
        {static_cast<std::int64_t>(count), shape.channels, shape.height, shape.width}, torch::kFloat32);
    return pixels.to(options.device, type)
        .contiguous(options.flat.channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous);
  }

  torch::Tensor labels(data::Batch& batch, std::size_t begin, std::size_t end) const {
    return torch::from_blob(batch.labels.data() + begin, {static_cast<std::int64_t>(end - begin)}, torch::kInt64)
        .to(options.device);
  }

  /// The logits of images, in at least fp32.
  torch::Tensor logits(const torch::Tensor& images) {
    now_does("forward of images", images);
    const Autocast autocast(options.precision, options.device.type());
    torch::Tensor output = model->forward(images).to(type);
    if (output.dim() != 2 || output.size(0) != images.size(0) || output.size(1) < train.dataset().classes()) {
      fail(ErrorKind::usage, "model ", model->name(), ": forward of images ", shape_of(images.sizes()), " gave ",
           shape_of(output.sizes()), "; it must give ", images.size(0), "x", train.dataset().classes(),
           ", a number for each of the data's ", train.dataset().classes(), " classes");
    }
    return output;
  }

  /// Remembers the running operation, for the error if LibTorch fails.
  void now_does(const char* what, const torch::Tensor& with) {
    operation = what;
    operand.assign(with.sizes().begin(), with.sizes().end());
  }

  /// Runs `work` and turns an error of LibTorch into one line.
  template <class Work>
  auto in_one_line(Work work) {
    try {
      return work();
    } catch (const c10::Error& error) {
      throw torch_error(error, text("model ", model->name(), ": ", operation, " ", shape_of(operand)));
    }
  }

  void prepare_thread() {
    if (options.threads > 0 && torch::get_num_threads() != options.threads) torch::set_num_threads(options.threads);
  }

  /// Forward and backward over one batch, on the compute thread. Calls `announce` with each ready bucket, and `release`
  /// with each bucket whose parameters are no longer read; `result`'s sizes are set before the first call.
  void compute(data::BatchId id, const strategy::Weighting& weighting, strategy::PassResult& result, PassTimes& times,
               const std::function<void(std::size_t)>& announce, const std::function<void(std::size_t)>& release) {
    in_one_line([&] { compute_batch(id, weighting, result, times, announce, release); });
  }

  /// A pass that is being computed.
  struct Computation {
    data::BatchId id;
    strategy::PassResult& result;
    PassTimes& times;
    std::function<void(std::size_t)> announce, release;  // empty: nobody waits for single buckets
    Slowdown slowdown;
    std::optional<GateWatch> watch = {};  // if gates are closed, until the first forward pass is over
    double loss_factor = 1;
  };

  void compute_batch(data::BatchId id, const strategy::Weighting& weighting, strategy::PassResult& result,
                     PassTimes& times, const std::function<void(std::size_t)>& announce,
                     const std::function<void(std::size_t)>& release) {
    prepare_thread();
    data::Batch batch = read(id, times);
    Random random(options.seed, (std::uint64_t{id.epoch} << 40) ^ (std::uint64_t{id.step} << 12) ^
                                    static_cast<std::uint64_t>(options.worker));
    torch::manual_seed(random.next());
    model->train();
    flat->train_first_layer(options.first_layer_epochs == 0 || id.epoch < options.first_layer_epochs);
    result.loss = batch.size() > 0 ? 0.0 : NAN;
    result.samples = static_cast<std::uint32_t>(batch.size());
    result.global_samples = batch.global_count;

    auto start = Clock::now();
    Computation now{id, result, times, announce, release, Slowdown(options.slow)};
    watch_gates(now);
    times.forward += since(start);
    now.loss_factor = weighting(result) * (loss_scale ? loss_scale->value() : 1);
    compute_parts(now, batch);

    start = Clock::now();
    backward->collect_gradients();
    host->buffers_to_host();
    times.backward += since(start);
    if (prefetch) prefetch->give_back(std::move(batch));
  }

  data::Batch read(data::BatchId id, PassTimes& times) {
    const auto start = Clock::now();
    const Duration span_start = runtime.now();
    data::Batch batch = prefetch ? prefetch->take(id) : train.load(id.epoch, id.step);
    times.read += since(start);
    times.spans.push_back({"read", id.step, span_start, runtime.now()});
    return batch;
  }

  /// Copies parameters to the device now, or each bucket once its gate is open.
  void watch_gates(Computation& now) {
    host->buffers_to_device();
    if (!gates->any_closed()) return host->parameters_to_device();
    now.watch.emplace(flat->parameters(), flat->layout().buckets, *gates);
    now.watch->on_passed = [this](std::size_t gate) { host->parameters_to_device(gate); };
    now.watch->on_wait = [this, &times = now.times](std::size_t gate, Duration took) {
      const Duration end = runtime.now();
      times.spans.push_back({"wait", gate, end - took, end});
    };
  }

  /// Forward and backward over each part of the batch.
  void compute_parts(Computation& now, data::Batch& batch) {
    const std::size_t parts = std::min<std::size_t>(options.accumulate, batch.size());
    if (parts == 0) {
      if (now.watch) now.watch->wait_for_all();
      backward->zero_gradients();
    }
    const GradientLoan loan(*backward);
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t begin = batch.size() * part / parts, end = batch.size() * (part + 1) / parts;
      const double weight = parts == 1 ? 1 : static_cast<double>(end - begin) / batch.size();
      const torch::Tensor loss = forward_part(now, batch, {begin, end}, weight);
      const auto start = Clock::now();
      const Duration span_start = runtime.now();
      // Only after the gates: until then the gradients belong to the previous step.
      if (part == 0) backward->renew_gradients(parts == 1 ? loss : torch::Tensor());
      if (part + 1 == parts) tell_buckets(now);
      const double factor = weight * now.loss_factor;
      (factor == 1 ? loss : loss * factor).backward();
      now.slowdown.catch_up();
      now.times.backward += since(start);
      now.times.spans.push_back({"backward", now.id.step, span_start, runtime.now()});
    }
    now.times.forward -= now.times.waited;
    backward->on_ready = backward->on_released = nullptr;
  }

  /// The loss of a part, which counts with `weight` in the batch's loss.
  torch::Tensor forward_part(Computation& now, data::Batch& batch, Range part, double weight) {
    const auto start = Clock::now();
    const Duration span_start = runtime.now();
    const torch::Tensor output = logits(images(batch, part.begin, part.end));
    now_does("loss of logits", output);
    const auto smoothing = torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(options.label_smoothing);
    torch::Tensor loss = torch::nn::functional::cross_entropy(output, labels(batch, part.begin, part.end), smoothing);
    now.result.loss += loss.item<double>() * weight;
    Duration waited{0};
    if (now.watch) {
      now.watch->wait_for_all();
      now.times.waited = waited = now.watch->waited();
      now.watch.reset();
    }
    now.slowdown.catch_up(waited);
    now.times.forward += since(start);
    now.times.spans.push_back({"forward", now.id.step, span_start, runtime.now()});
    now_does("backward from logits", output);
    return loss;
  }

  /// Makes the last part's backward pass announce and release buckets.
  void tell_buckets(Computation& now) {
    if (now.announce) {
      backward->on_ready = [&now](std::size_t bucket) {
        now.slowdown.catch_up();
        now.announce(bucket);
      };
    }
    backward->on_released = now.release;
  }

  /// The times of a pass that are charged or waited for instead of measured.
  strategy::ComputeProfile charged(strategy::BatchSize size) const {
    if (options.replay) return options.replay->of(size.samples);
    return strategy::stated_profile(options.image_cost * std::int64_t{size.samples}, flat->layout().buckets.size());
  }

  /// The samples of a step: this worker's and all workers'.
  strategy::BatchSize size_of(std::uint32_t step) const {
    const auto counts = train.sampler().counts_of_all(step);
    const data::SamplerOptions& sampling = train.sampler().options();
    strategy::BatchSize size;
    size.samples = size.global_samples = counts[static_cast<std::size_t>(sampling.worker)];
    if (sampling.partition == data::Partition::shards) return size;
    size.global_samples = std::accumulate(counts.begin(), counts.end(), 0u);
    return size;
  }

  strategy::Evaluation evaluate(std::uint32_t begin, std::uint32_t end) {
    prepare_thread();
    const torch::NoGradGuard no_grad;
    Slowdown slowdown(options.slow);
    model->eval();
    host->state_to_device();
    strategy::Evaluation sums;
    in_one_line([&] { evaluate_into(begin, end, sums); });
    slowdown.catch_up();
    return sums;
  }

  void evaluate_into(std::uint32_t begin, std::uint32_t end, strategy::Evaluation& sums) {
    for (std::uint32_t at = begin; at < end; at += options.evaluation_batch) {
      data::Batch batch = test.load_range(at, std::min(end, at + options.evaluation_batch));
      const torch::Tensor output = logits_of_views(options.test_views, images(batch, 0, batch.size()),
                                                   [this](const torch::Tensor& view) { return logits(view); });
      const torch::Tensor target = labels(batch, 0, batch.size());
      sums.loss += torch::nn::functional::cross_entropy(
                       output, target, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
                       .item<double>();
      sums.correct += output.argmax(1).eq(target).sum().item<double>();
      sums.samples += static_cast<double>(batch.size());
    }
  }

  /// Before a pass: saves everything but gradients that it may change, unless an earlier uncommitted pass has saved it.
  void keep() {
    if (std::exchange(uncommitted, true)) return;
    if (!kept_buffers) {
      kept_buffers.emplace(host->buffers().count, host->buffers().type);
      for (const auto& item : model->named_buffers()) {
        if (!item.value().is_floating_point()) kept_counters.push_back({item.value(), item.value().clone()});
      }
    }
    numeric::convert(kept_buffers->span(), host->buffers());
    for (auto& [counter, kept] : kept_counters) kept.copy_(counter);
  }

  void commit() { uncommitted = false; }

  void drop() {
    if (!std::exchange(uncommitted, false)) return;
    numeric::convert(host->buffers(), kept_buffers->span());
    for (auto& [counter, kept] : kept_counters) counter.copy_(kept);
  }

  Runtime& runtime;
  observe::Recorder& recorder;
  std::shared_ptr<model::Classifier> model;
  data::Loader train, test;
  TorchOptions options;
  torch::ScalarType type;
  std::unique_ptr<FlatModel> flat;
  std::unique_ptr<HostCopy> host;  // the host's copy of the numbers, for exchanges
  std::unique_ptr<BackwardWatch> backward;
  std::unique_ptr<Gates> gates;
  std::optional<optim::LossScale> loss_scale;
  std::optional<data::Prefetch> prefetch;  // not in virtual time
  bool uncommitted = false;                // a pass has begun since the last commit; the state before it:
  std::optional<numeric::Numbers> kept_buffers;
  std::vector<std::pair<torch::Tensor, torch::Tensor>>
      kept_counters;                // a buffer that is not floating-point, and its copy
  const char* operation = "start";  // the running operation; below, its operand's shape
  std::vector<std::int64_t> operand;
};

}  // namespace ripieno::train
