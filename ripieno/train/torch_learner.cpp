#include "ripieno/train/torch_learner.h"

#include <ATen/autocast_mode.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <chrono>
#include <cmath>

#include "ripieno/core/async.h"

namespace ripieno {
namespace {

using Clock = std::chrono::steady_clock;  // on the compute thread; virtual time charges a stated cost instead

Duration since(Clock::time_point start) { return std::chrono::duration_cast<Duration>(Clock::now() - start); }

/// Casts what is worth casting to bf16 as long as it lives; the casts of weights are kept until its end.
class Autocast {
 public:
  explicit Autocast(bool on) : on_(on), before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    if (!on_) return;
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Autocast() {
    if (!on_) return;
    at::autocast::set_autocast_enabled(at::kCPU, before_);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_, before_;
};

struct PassTimes {
  Duration read{0}, forward{0}, backward{0};
};

}  // namespace

Precision find_precision(const std::string& name) {
  if (name == "fp32") return Precision::fp32;
  if (name == "fp64") return Precision::fp64;
  if (name == "bf16") return Precision::bf16;
  fail(ErrorKind::usage, "there is no precision \"", name, "\"; the precisions are fp32, fp64, bf16");
}

/// Shared with passes under way.
struct TorchLearner::State {
  State(Runtime& runtime, Recorder& recorder, std::shared_ptr<Classifier> model, Loader train, Loader test,
        TorchOptions options)
      : runtime(runtime),
        recorder(recorder),
        model(std::move(model)),
        train(std::move(train)),
        test(std::move(test)),
        options(options),
        type(options.precision == Precision::fp64 ? torch::kFloat64 : torch::kFloat32) {
    this->model->to(type);
    flat = std::make_unique<FlatModel>(this->model, options.flat);
  }

  torch::Tensor images(Batch& batch, std::size_t begin, std::size_t end) const {
    const ImageShape shape = train.dataset().shape();
    const std::size_t count = end - begin;
    const torch::Tensor pixels =
        torch::from_blob(batch.pixels.data() + begin * shape.pixels(),
                         {static_cast<std::int64_t>(count), shape.channels, shape.height, shape.width}, torch::kFloat32);
    return pixels.to(type).contiguous(options.flat.channels_last ? torch::MemoryFormat::ChannelsLast
                                                                 : torch::MemoryFormat::Contiguous);
  }

  torch::Tensor labels(Batch& batch, std::size_t begin, std::size_t end) const {
    return torch::from_blob(batch.labels.data() + begin, {static_cast<std::int64_t>(end - begin)}, torch::kInt64);
  }

  /// Forward, then the logits in at least fp32.
  torch::Tensor logits(const torch::Tensor& images) const {
    const Autocast autocast(options.precision == Precision::bf16);
    return model->forward(images).to(type);
  }

  void prepare_thread() {
    if (options.threads > 0 && torch::get_num_threads() != options.threads) torch::set_num_threads(options.threads);
  }

  /// Forward and backward over one batch, on the compute thread. `announce` is called with each ready bucket.
  PassResult compute(BatchId id, PassTimes& times, const std::function<void(std::size_t)>& announce) {
    prepare_thread();
    auto start = Clock::now();
    Batch batch = train.load(id.epoch, id.step);
    times.read += since(start);

    Random random(options.seed, (std::uint64_t{id.epoch} << 40) ^ (std::uint64_t{id.step} << 12) ^ static_cast<std::uint64_t>(options.worker));
    torch::manual_seed(random.next());
    model->train();
    flat->zero_gradients();
    PassResult result{batch.size() > 0 ? 0.0 : NAN, static_cast<std::uint32_t>(batch.size()), batch.global_count};
    const std::size_t parts = std::min<std::size_t>(options.accumulate, batch.size());
    for (std::size_t part = 0; part < parts; ++part) {
      start = Clock::now();
      const std::size_t begin = batch.size() * part / parts, end = batch.size() * (part + 1) / parts;
      const torch::Tensor loss = torch::nn::functional::cross_entropy(
          logits(images(batch, begin, end)), labels(batch, begin, end),
          torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(options.label_smoothing));
      const torch::Tensor weighted = parts == 1 ? loss : loss * (static_cast<double>(end - begin) / batch.size());
      result.loss += weighted.item<double>();
      times.forward += since(start);
      start = Clock::now();
      if (part + 1 == parts) flat->on_ready = announce;
      weighted.backward();
      times.backward += since(start);
    }
    flat->on_ready = nullptr;
    flat->collect_gradients();
    return result;
  }

  Evaluation evaluate(std::uint32_t begin, std::uint32_t end) {
    prepare_thread();
    const torch::NoGradGuard no_grad;
    model->eval();
    Evaluation sums;
    for (std::uint32_t at = begin; at < end; at += options.evaluation_batch) {
      Batch batch = test.load_range(at, std::min(end, at + options.evaluation_batch));
      const torch::Tensor output = logits(images(batch, 0, batch.size()));
      const torch::Tensor target = labels(batch, 0, batch.size());
      sums.loss += torch::nn::functional::cross_entropy(
                       output, target, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
                       .item<double>();
      sums.correct += output.argmax(1).eq(target).sum().item<double>();
      sums.samples += static_cast<double>(batch.size());
    }
    return sums;
  }

  Runtime& runtime;
  Recorder& recorder;
  std::shared_ptr<Classifier> model;
  Loader train, test;
  TorchOptions options;
  torch::ScalarType type;
  std::unique_ptr<FlatModel> flat;
};

class TorchLearner::TorchPass final : public Pass {
 public:
  TorchPass(std::shared_ptr<State> state, BatchId batch) : shared_(std::make_shared<Shared>(std::move(state), batch)) {
    asio::co_spawn(shared_->state->runtime.context(), compute(shared_), asio::detached);
  }

  Task<std::optional<std::size_t>> next_bucket() override { return shared_->ready.pop(); }

  Task<PassResult> finish() override {
    co_await shared_->done.wait();
    const Shared& now = *shared_;
    Recorder& recorder = now.state->recorder;
    recorder.add(Stage::read, now.times.read);
    recorder.add(Stage::forward, now.times.forward);
    recorder.add(Stage::backward, now.times.backward);
    co_return now.result;
  }

 private:
  struct Shared {
    Shared(std::shared_ptr<State> state, BatchId batch)
        : state(std::move(state)), batch(batch), ready(this->state->runtime), done(this->state->runtime),
          announced(this->state->flat->layout().buckets.size()) {}

    void announce(std::size_t bucket) {
      if (announced[bucket]) return;
      announced[bucket] = true;
      ready.push(bucket);
    }

    std::shared_ptr<State> state;
    BatchId batch;
    Queue<std::optional<std::size_t>> ready;
    Event done;
    std::vector<bool> announced;
    PassTimes times;
    PassResult result;
  };

  static Task<> compute(std::shared_ptr<Shared> shared) {
    Runtime& runtime = shared->state->runtime;
    auto work = [shared] {
      State& state = *shared->state;
      std::function<void(std::size_t)> announce;  // in virtual time all buckets are ready when the cost has passed
      if (!state.runtime.is_virtual()) {
        announce = [shared](std::size_t bucket) {
          asio::post(shared->state->runtime.context(), [shared, bucket] { shared->announce(bucket); });
        };
      }
      return state.compute(shared->batch, shared->times, announce);
    };
    try {
      shared->result = co_await runtime.offload(Duration(0), work);
      if (runtime.is_virtual()) {
        const Duration cost = shared->state->options.image_cost * static_cast<std::int64_t>(shared->result.samples);
        shared->times = {Duration{0}, cost / 3, cost - cost / 3};
        co_await runtime.sleep(cost);
      }
      for (std::size_t bucket = 0; bucket < shared->announced.size(); ++bucket) shared->announce(bucket);  // unused ones
      shared->ready.push(std::nullopt);
      shared->done.set();
    } catch (...) {
      shared->ready.push(std::nullopt);
      shared->done.fail(std::current_exception());
    }
  }

  std::shared_ptr<Shared> shared_;
};

TorchLearner::TorchLearner(Runtime& runtime, Recorder& recorder, std::shared_ptr<Classifier> model, Loader train,
                           Loader test, TorchOptions options)
    : state_(std::make_shared<State>(runtime, recorder, std::move(model), std::move(train), std::move(test), options)) {}

TorchLearner::~TorchLearner() = default;

Classifier& TorchLearner::model() { return *state_->model; }
const Layout& TorchLearner::layout() const { return state_->flat->layout(); }
FloatSpan TorchLearner::parameters() { return state_->flat->parameters(); }
FloatSpan TorchLearner::gradients() { return state_->flat->gradients(); }
FloatSpan TorchLearner::buffers() { return state_->flat->buffers(); }
FloatSpan TorchLearner::frozen() { return state_->flat->frozen(); }
std::uint32_t TorchLearner::steps_per_epoch() const { return state_->train.steps(); }
std::uint32_t TorchLearner::samples_per_epoch() const { return state_->train.sampler().samples(); }

Task<std::unique_ptr<Pass>> TorchLearner::begin(BatchId batch) { co_return std::make_unique<TorchPass>(state_, batch); }

Task<Evaluation> TorchLearner::evaluate(int part, int parts) {
  const auto [begin, end] = share(state_->test.dataset().size(), part, parts);
  auto work = [state = state_, begin = begin, end = end] { return state->evaluate(begin, end); };
  const Duration cost = state_->options.image_cost * static_cast<std::int64_t>(end - begin) / 3;
  co_return co_await state_->runtime.offload(cost, work);
}

void TorchLearner::visit(StateVisitor& visitor) {
  visitor.span("frozen", frozen());
  for (auto& item : state_->model->named_buffers()) {  // the float ones are buffers()
    torch::Tensor& buffer = item.value();
    if (buffer.scalar_type() != torch::kInt64 || buffer.numel() != 1) continue;
    std::int64_t value = buffer.item<std::int64_t>();
    visitor.number(item.key(), value);
    buffer.fill_(value);
  }
}

std::uint32_t TorchLearner::train_samples() const { return state_->train.sampler().total(); }

std::uint64_t TorchLearner::bytes_read() const {
  return state_->train.dataset().bytes_read() + state_->test.dataset().bytes_read();
}

}  // namespace ripieno
