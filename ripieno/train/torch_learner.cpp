#include "ripieno/train/torch_learner.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <numeric>

#include "ripieno/core/async.h"
#include "ripieno/strategy/pass_progress.h"
#include "ripieno/train/torch_learner_state.h"

namespace ripieno::train {

class TorchLearner::TorchPass final : public strategy::ProgressPass {
 public:
  TorchPass(std::shared_ptr<State> state, data::BatchId batch, strategy::Weighting weighting)
      : TorchPass(std::make_shared<Shared>(std::move(state), batch, std::move(weighting))) {}

  Task<strategy::PassResult> finish() override {
    const strategy::PassResult result = co_await strategy::ProgressPass::finish();
    const PassTimes& times = shared_->times;
    observe::Recorder& recorder = shared_->state->recorder;
    recorder.add(observe::Stage::read, times.read);
    recorder.add(observe::Stage::forward, times.forward);
    recorder.add(observe::Stage::backward, times.backward);
    for (const observe::Span& span : times.spans) recorder.span(span);
    co_return result;
  }

 private:
  struct Shared : strategy::PassProgress {
    Shared(std::shared_ptr<State> its_state, data::BatchId batch, strategy::Weighting weighting)
        : strategy::PassProgress(its_state->runtime, its_state->flat->layout().buckets.size()),
          state(std::move(its_state)),
          batch(batch),
          weighting(std::move(weighting)),
          announced(released.size()) {}

    void announce(std::size_t bucket) {
      if (announced[bucket]) return;
      announced[bucket] = true;
      ready.push(bucket);
    }

    std::shared_ptr<State> state;
    data::BatchId batch;
    strategy::Weighting weighting;
    std::vector<bool> announced;
    PassTimes times;
  };

  explicit TorchPass(std::shared_ptr<Shared> shared) : strategy::ProgressPass(shared), shared_(std::move(shared)) {
    asio::co_spawn(shared_->state->runtime.context(), compute(shared_), asio::detached);
  }

  static Task<> compute(std::shared_ptr<Shared> shared) {
    std::exception_ptr error;
    try {
      if (shared->state->runtime.is_virtual() || shared->state->options.replay) {
        co_await compute_by_charge(shared);
      } else {
        co_await compute_on_thread(shared);
      }
      for (std::size_t bucket = 0; bucket < shared->announced.size(); ++bucket)
        shared->announce(bucket);  // buckets without a gradient
    } catch (...) {
      error = std::current_exception();
    }
    shared->end(error);
  }

  static Task<> compute_on_thread(std::shared_ptr<Shared> shared) {
    auto work = [shared] {
      const auto announce = [shared](std::size_t bucket) {
        asio::post(shared->state->runtime.context(), [shared, bucket] { shared->announce(bucket); });
      };
      const auto release = [shared](std::size_t bucket) {
        asio::post(shared->state->runtime.context(), [shared, bucket] { shared->released[bucket].set(); });
      };
      shared->state->compute(shared->batch, shared->weighting, shared->result, shared->times, announce, release);
    };
    co_await shared->state->runtime.offload(Duration(0), work);
    shared->result.waited = shared->times.waited;
  }

  /// A pass in charged time. The forward pass is charged bucket by bucket, from the first parameters to the last; in
  /// virtual time the real work is then done inline at its end, in a replay there is none. The backward pass announces
  /// each bucket when it is ready.
  static Task<> compute_by_charge(std::shared_ptr<Shared> shared) {
    State& state = *shared->state;
    Runtime& runtime = state.runtime;
    const auto buckets = static_cast<std::int64_t>(shared->announced.size());
    const strategy::BatchSize size = state.size_of(shared->batch.step);
    const auto charged = state.charged(size);
    const Duration negligible =
        runtime.is_virtual() ? Duration(0) : std::chrono::microseconds(10);  // passing an open gate takes less
    Duration at = runtime.now() + charged.read;                              // the end of the time charged so far
    co_await pause_until(&runtime, at);
    const Duration start = runtime.now();
    std::vector<observe::Span> spans;
    if (charged.read.count() > 0) spans.push_back({"read", shared->batch.step, start - charged.read, start});
    for (std::int64_t bucket = buckets; bucket-- > 0;) {
      const Duration asked = runtime.now();
      co_await state.gates->passed(static_cast<std::size_t>(bucket));
      const Duration passed = runtime.now();
      if (passed - asked > negligible) {
        spans.push_back({"wait", static_cast<std::size_t>(bucket), asked, passed});
        shared->result.waited += passed - asked;
        at = passed;
      }
      at += charged.forward / buckets;
      co_await pause_until(&runtime, at);
    }
    const Duration waited = shared->result.waited, turn = runtime.now();
    spans.push_back({"forward", shared->batch.step, start, turn});
    if (state.options.replay) {
      static_cast<strategy::BatchSize&>(shared->result) = size;
      shared->result.loss = NAN;
    } else {
      state.compute(shared->batch, shared->weighting, shared->result, shared->times, {}, {});
    }
    shared->result.waited = waited;
    for (Event& released : shared->released) released.set();
    at = turn;
    std::vector<std::size_t> order(shared->announced.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return charged.ready[a] < charged.ready[b]; });
    for (const std::size_t bucket : order) {
      co_await pause_until(&runtime, at + charged.ready[bucket]);
      shared->announce(bucket);
    }
    co_await pause_until(&runtime, at + charged.backward);
    spans.push_back({"backward", shared->batch.step, turn, runtime.now()});
    shared->times = {charged.read, turn - start - waited, runtime.now() - turn, waited, {}};
    shared->times.spans = std::move(spans);
  }

  static Task<> pause_until(Runtime* runtime, Duration when) {
    const Duration left = when - runtime->now();
    if (left.count() > 0) co_await runtime->sleep(left);
  }

  std::shared_ptr<Shared> shared_;
};

TorchLearner::TorchLearner(Runtime& runtime, observe::Recorder& recorder, std::shared_ptr<model::Classifier> model,
                           data::Loader train, data::Loader test, TorchOptions options)
    : state_(std::make_shared<State>(runtime, recorder, std::move(model), std::move(train), std::move(test), options)) {
}

TorchLearner::~TorchLearner() = default;

model::Classifier& TorchLearner::model() {
  state_->host->state_to_device();
  return *state_->model;
}
const strategy::Layout& TorchLearner::layout() const { return state_->flat->layout(); }
NumberSpan TorchLearner::parameters() { return state_->shown(state_->host->parameters()); }
NumberSpan TorchLearner::gradients() { return state_->shown(state_->host->gradients()); }
NumberSpan TorchLearner::buffers() { return state_->shown(state_->host->buffers()); }
NumberSpan TorchLearner::frozen() { return state_->host->frozen(); }
std::uint32_t TorchLearner::steps_per_epoch() const { return state_->train.steps(); }
std::uint32_t TorchLearner::samples_per_epoch() const { return state_->train.sampler().samples(); }
double TorchLearner::own_samples() const {
  return sampler().samples_of_all()[static_cast<std::size_t>(sampler().options().worker)];
}

Gates& TorchLearner::gates() { return *state_->gates; }
optim::LossScale* TorchLearner::loss_scale() { return state_->loss_scale ? &*state_->loss_scale : nullptr; }

void TorchLearner::commit() { state_->commit(); }
void TorchLearner::drop() { state_->drop(); }

Task<std::unique_ptr<strategy::Pass>> TorchLearner::begin(data::BatchId batch, strategy::Weighting weighting) {
  state_->keep();
  co_return std::make_unique<TorchPass>(state_, batch, std::move(weighting));
}

Task<strategy::Evaluation> TorchLearner::evaluate(int part, int parts) {
  if (state_->options.replay) co_return strategy::Evaluation{};
  const auto [begin, end] = data::share(state_->test.dataset().size(), part, parts);
  auto work = [state = state_, begin = begin, end = end] { return state->evaluate(begin, end); };
  const Duration cost = state_->options.image_cost * static_cast<std::int64_t>(end - begin) / 3;
  co_return co_await state_->runtime.offload(cost, work);
}

void TorchLearner::visit(StateVisitor& visitor) {
  visitor.span("frozen", frozen());
  if (state_->loss_scale) state_->loss_scale->visit(visitor);
  for (auto& item : state_->model->named_buffers()) {  // the float ones are buffers()
    torch::Tensor& buffer = item.value();
    if (buffer.scalar_type() != torch::kInt64 || buffer.numel() != 1) continue;
    std::int64_t value = buffer.item<std::int64_t>();
    visitor.number(item.key(), value);
    buffer.fill_(value);
  }
}

std::size_t TorchLearner::first_layer() const { return state_->flat->first_layer(); }
const data::Sampler& TorchLearner::sampler() const { return state_->train.sampler(); }

std::uint64_t TorchLearner::bytes_read() const {
  const std::uint64_t train = state_->prefetch ? state_->prefetch->bytes_read() : state_->train.dataset().bytes_read();
  return train + state_->test.dataset().bytes_read();
}

}  // namespace ripieno::train
