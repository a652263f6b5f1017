// Exchange and compute side by side, in real time: what may overtake what is held by gates and latches, never by times.
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <map>

#include "ripieno/model/run_layers.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/train/gate_watch.h"
#include "ripieno/train/precision.h"
#include "tests/train/tcp_learners.h"

namespace ripieno::train {
namespace {

using testing::floats;
using testing::RealRank;
using testing::SmallNet;
using testing::TorchJob;
using testing::train_over_tcp;

/// Both layers have buckets of their own: 0 is the linear one, whose gradient is ready first, 1 the convolution.
TorchOptions two_buckets() {
  TorchOptions options;
  options.flat.bucket_bytes = 100;
  return options;
}

strategy::Plan ten_steps(bool forward = false) {
  strategy::Plan plan;
  plan.max_steps = 10;
  plan.optimiser.momentum = 0.9;
  plan.optimiser.weight_decay = 1e-3;
  plan.learning_rate.base = 0.05;
  plan.exchange.forward = forward;
  return plan;
}

TEST(OverlapInRealTime, EndsWithTheWeightsOfTakingTurns) {
  for (const int workers : {2, 3}) {
    TorchJob simulated("ring", workers, ten_steps(), two_buckets());
    simulated.run();
    const std::vector<float> expected = floats(simulated.weights());
    const auto ring = train_over_tcp("ring", workers, ten_steps(), two_buckets());
    const auto backward = train_over_tcp("ddp", workers, ten_steps(), two_buckets());
    const auto forward = train_over_tcp("ddp", workers, ten_steps(true), two_buckets());
    for (int rank = 0; rank < workers; ++rank) {
      EXPECT_EQ(ring[rank].weights, expected) << workers << " workers, rank " << rank;
      EXPECT_EQ(backward[rank].weights, expected) << workers << " workers, rank " << rank;
      EXPECT_EQ(forward[rank].weights, expected) << workers << " workers, rank " << rank;
    }
  }
}

TEST(OverlapInRealTime, EverySpanOfAJobHasItsPlace) {
  for (const bool forward : {false, true}) {
    for (const RealRank& rank : train_over_tcp("ddp", 2, ten_steps(forward), two_buckets())) {
      std::map<std::string, std::vector<observe::Span>> spans;
      for (const observe::Span& span : rank.spans) spans[span.what].push_back(span);
      ASSERT_EQ(spans["forward"].size(), 10u);
      ASSERT_EQ(spans["backward"].size(), 10u);
      EXPECT_EQ(spans["exchange"].size(), 20u);
      for (std::size_t step = 0; step < 10; ++step) {
        EXPECT_LE(spans["forward"][step].end, spans["backward"][step].begin);
        if (step > 0) {
          EXPECT_LE(spans["backward"][step - 1].end, spans["forward"][step].begin);
        }
      }
      for (const observe::Span& wait : spans["wait"]) {
        EXPECT_TRUE(forward) << "nothing is closed";
        const auto around =
            std::find_if(spans["forward"].begin(), spans["forward"].end(),
                         [&](const observe::Span& pass) { return pass.begin <= wait.begin && wait.end <= pass.end; });
        EXPECT_NE(around, spans["forward"].end()) << "a wait outside of forward passes";
      }
    }
  }
}

/// Something that happens once and is waited for by threads. The limit is for a test that fails.
class Latch {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    news_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return news_.wait_for(lock, std::chrono::seconds(60), [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  bool set_ = false;
};

/// Between the layers: tells that forward got there, and holds backward until it is let on.
struct Between {
  std::function<void(const torch::Tensor& features)> forward_is_here = [](const torch::Tensor&) {};
  Latch backward_may_go_on;
  bool let_on = true;
};

struct HoldBackward : torch::autograd::Function<HoldBackward> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x, std::int64_t between) {
    context->saved_data["between"] = between;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* between = reinterpret_cast<Between*>(context->saved_data["between"].toInt());
    between->let_on = between->backward_may_go_on.wait();
    return {gradients[0], torch::Tensor()};
  }
};

struct HeldNet final : SmallNet {
  explicit HeldNet(Between& between) : between(between) {}
  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor features =
        HoldBackward::apply(torch::relu(convolution(images)).flatten(1), reinterpret_cast<std::int64_t>(&between));
    between.forward_is_here(features);
    return linear(features);
  }
  Between& between;
};

/// One learner on such a net, in real time.
struct Held {
  Held() {
    torch::set_num_threads(1);
    torch::manual_seed(1);
    std::shared_ptr<data::Dataset> digits = data::open_dataset("digits", data::Split::train, {.train_samples = 100});
    const auto loader = [&] { return data::Loader(digits, data::Sampler(100, {.batch = 20}), {}, {}, 0); };
    learner = std::make_unique<TorchLearner>(*runtime, recorder, std::make_shared<HeldNet>(between), loader(), loader(),
                                             two_buckets());
    recorder.on_span = [this](const observe::Span& span) { spans.push_back(span); };
  }

  std::unique_ptr<Runtime> runtime = real_runtime(0);
  observe::Recorder recorder{*runtime, nullptr, nullptr};
  Between between;
  std::unique_ptr<TorchLearner> learner;
  std::vector<observe::Span> spans;
};

bool is_zero(NumberSpan span) {
  const auto values = span.as<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

/// The first bucket's readiness lets backward go on; were it told at backward's end, nobody would.
Task<> let_backward_on(Held* held, std::vector<std::size_t>* buckets, Duration* first_ready) {
  const data::BatchId batch{0, 0};
  const auto pass = co_await held->learner->begin(batch, strategy::unweighted);
  while (const auto bucket = co_await pass->next_bucket()) {
    if (buckets->empty()) {
      *first_ready = held->runtime->now();
      EXPECT_EQ(pass->size().samples, 20u);
      const NumberSpan gradient = held->learner->gradients();
      const Range range = held->learner->layout().buckets[*bucket],
                  other = held->learner->layout().buckets[1 - *bucket];
      EXPECT_FALSE(is_zero(gradient.slice(range.begin, range.end))) << "it is there";
      EXPECT_TRUE(is_zero(gradient.slice(other.begin, other.end))) << "the other is not";
      held->between.backward_may_go_on.set();
    }
    buckets->push_back(*bucket);
  }
  co_await pass->finish();
}

TEST(OverlapInRealTime, ABucketIsReadyBeforeBackwardHasEnded) {
  Held held;
  std::vector<std::size_t> buckets;
  Duration first_ready{0};
  held.runtime->spawn("pass", let_backward_on(&held, &buckets, &first_ready));
  held.runtime->run();
  EXPECT_TRUE(held.between.let_on) << "the first bucket was not announced while backward was running";
  EXPECT_EQ(buckets, (std::vector<std::size_t>{0, 1}));
  ASSERT_EQ(held.spans.size(), 3u);
  EXPECT_STREQ(held.spans[0].what, "read");
  EXPECT_STREQ(held.spans[1].what, "forward");
  EXPECT_STREQ(held.spans[2].what, "backward");
  EXPECT_LT(held.spans[2].begin, first_ready);
  EXPECT_LT(first_ready, held.spans[2].end);
}

/// Closes the gates, and opens each, the convolution's first, with the parameters zeroed that lie behind it. `steps` is
/// what happened, in order.
Task<> open_one_by_one(Held* held, Event* here, std::vector<std::string>* steps, double* loss) {
  Gates& gates = held->learner->gates();
  const strategy::Layout& layout = held->learner->layout();
  gates.close(0);
  gates.close(1);
  const data::BatchId batch{0, 0};
  const auto pass = co_await held->learner->begin(batch, strategy::unweighted);
  for (const std::size_t bucket : {std::size_t{1}, std::size_t{0}}) {
    const Range range = layout.buckets[bucket];
    numeric::scale(held->learner->parameters().slice(range.begin, range.end), 0);
    steps->push_back(text("open ", bucket));
    gates.open(bucket);
    if (bucket == 1) co_await here->wait();
  }
  const strategy::PassResult result = co_await pass->finish();
  *loss = result.loss;
}

TEST(GateWatch, HoldsAForwardPassAtTheLayerWhoseGateIsClosed) {
  Held held;
  held.between.backward_may_go_on.set();
  Event here(*held.runtime);
  std::vector<std::string> steps;
  bool features_are_zero = false;
  held.between.forward_is_here = [&](const torch::Tensor& features) {
    features_are_zero = features.eq(0).all().item<bool>();
    asio::post(held.runtime->context(), [&] {
      steps.push_back("between");
      here.set();
    });
  };
  double loss = 0;
  held.runtime->spawn("pass", open_one_by_one(&held, &here, &steps, &loss));
  held.runtime->run();
  EXPECT_EQ(steps, (std::vector<std::string>{"open 1", "between", "open 0"}));
  EXPECT_TRUE(features_are_zero) << "the convolution did not wait for its weights";
  // Without weights the last layer finds every digit as likely: had it not waited, it would have used others.
  EXPECT_NEAR(loss, std::log(10), 1e-6);
}

TEST(GateWatch, WaitsForEveryGateOfWhatAnOperatorTakes) {
  const auto runtime = real_runtime(0);
  const torch::Tensor flat = torch::ones(12);
  const torch::Tensor middle = flat.slice(0, 2, 6), every_fifth = flat.slice(0, 1, 12, 5);
  const std::vector<Range> buckets{{8, 12}, {4, 8}, {0, 4}};
  Gates gates(*runtime, 3);
  gates.close(0);
  std::vector<std::size_t> passed;
  GateWatch watch(NumberSpan(flat.data_ptr<float>(), 12, DType::fp32), buckets, gates);
  watch.on_passed = [&](std::size_t gate) { passed.push_back(gate); };
  EXPECT_EQ(middle.sum().item<float>(), 4);
  EXPECT_EQ(passed, (std::vector<std::size_t>{2, 1}));
  gates.open(0);
  EXPECT_EQ(every_fifth.sum().item<float>(), 3);
  EXPECT_EQ(passed, (std::vector<std::size_t>{2, 1, 0}));
}

// However a convolution is computed (fused/convolution.h), its weight is taken by an operator.
TEST(GateWatch, SeesTheWeightsOfConvolutions) {
  const auto runtime = real_runtime(0);
  for (const auto& [channels, size, images] :
       {std::tuple{8, 8, 2}, {64, 16, 8}, {256, 8, 16}, {512, 4, 16}, {64, 2, 4}}) {
    for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
      SCOPED_TRACE(::testing::Message() << images << " images of " << size << " x " << size << ", " << channels
                                        << " channels, " << type);
      const torch::Tensor flat = torch::randn(channels * channels * 9);
      torch::nn::Conv2d layer(torch::nn::Conv2dOptions(channels, channels, 3).padding(1).bias(false));
      layer->weight.set_data(flat.view({channels, 3, 3, channels}).permute({0, 3, 1, 2}));
      const torch::Tensor x =
          torch::randn({images, channels, size, size}).contiguous(torch::MemoryFormat::ChannelsLast);
      Gates gates(*runtime, 1);
      std::vector<std::size_t> passed;
      GateWatch watch(NumberSpan(flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel()), DType::fp32),
                      {{0, static_cast<std::size_t>(flat.numel())}}, gates);
      watch.on_passed = [&](std::size_t gate) { passed.push_back(gate); };
      const Autocast autocast(type == torch::kBFloat16 ? Precision::bf16 : Precision::fp32, torch::kCPU);
      fused::run_layers(layer, x);
      EXPECT_EQ(passed, std::vector<std::size_t>{0});
    }
  }
}

/// What happens around a gate that is opened `late` after the other thread is about to come to it, and the waits that
/// are told of.
struct AroundAGate {
  std::vector<std::string> log;
  std::vector<std::size_t> waits;
};

AroundAGate around_a_gate(std::chrono::milliseconds late) {
  const auto runtime = real_runtime(0);
  const torch::Tensor flat = torch::ones(8);
  const torch::Tensor first = flat.slice(0, 0, 4), second = flat.slice(0, 4, 8);
  const std::vector<Range> buckets{{4, 8}, {0, 4}};  // bucket 0 lies behind bucket 1
  Gates gates(*runtime, 2);
  gates.close(0);
  std::mutex mutex;
  AroundAGate seen;
  const auto note = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    seen.log.push_back(what);
  };
  Latch before;
  std::thread thread([&] {
    GateWatch watch(NumberSpan(flat.data_ptr<float>(), 8, DType::fp32), buckets, gates);
    watch.on_wait = [&](std::size_t gate, Duration) { seen.waits.push_back(gate); };
    const float open = (first * 2).sum().item<float>();
    note(text("open gate: ", open));
    before.set();
    const float closed = (second * 2).sum().item<float>();
    note(text("closed gate: ", closed));
    watch.wait_for_all();
  });
  EXPECT_TRUE(before.wait());
  std::this_thread::sleep_for(late);
  second.fill_(3);  // on this thread nobody watches
  note("opened");
  gates.open(0);
  thread.join();
  return seen;
}

TEST(GateWatch, WaitsForTheGateOfWhatAnOperatorTakes) {
  // Whether it comes to the gate before that opens is the scheduler's choice: it is given more and more time, until it
  // has.
  const std::vector<std::string> expected{"open gate: 8", "opened", "closed gate: 24"};
  std::vector<std::size_t> waits;
  for (auto late = std::chrono::milliseconds(0); waits.empty() && late < std::chrono::seconds(10);
       late = 2 * late + std::chrono::milliseconds(1)) {
    const AroundAGate seen = around_a_gate(late);
    EXPECT_EQ(seen.log, expected);
    waits = seen.waits;
  }
  EXPECT_EQ(waits, std::vector<std::size_t>{0}) << "the one gate that was closed, told of once";
}

}  // namespace
}  // namespace ripieno::train
