// What computes elsewhere comes to what computes on the CPU: here, on a device whose memory is not the host's.
#include "tests/train/other_device.h"

#include <gtest/gtest.h>

#include "ripieno/numeric/elementwise.h"
#include "ripieno/train/checkpoint.h"
#include "ripieno/train/device.h"
#include "tests/train/random_net.h"
#include "tests/train/tcp_learners.h"
#include "tests/train/watched_model.h"

namespace ripieno::train {
namespace {

using testing::floats;
using testing::on_ranks;
using testing::other_device;
using testing::RealRank;
using testing::train_over_tcp;
using testing::WatchedModel;

/// With batch norm's statistics, and a layer that no pass uses.
struct OnDevice : torch::nn::Module {
  OnDevice() {
    torch::manual_seed(5);
    layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 6, 3)));
    layers->push_back(torch::nn::BatchNorm2d(6));
    layers->push_back(torch::nn::ReLU());
    register_module("layers", layers);
    unused = register_module("unused", torch::nn::Linear(3, 2));
    head = register_module("head", torch::nn::Linear(6 * 4 * 4, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(layers->forward(x).flatten(1)); }
  torch::nn::Sequential layers;
  torch::nn::Linear unused{nullptr}, head{nullptr};
};

torch::Tensor images(int seed) {
  return torch::sin(torch::arange(5 * 2 * 6 * 6, torch::kFloat32).view({5, 2, 6, 6}) * 0.37 + seed);
}

double distance(NumberSpan a, NumberSpan b) {
  const auto x = a.as<float>(), y = b.as<float>();
  double square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) square += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(square);
}

TEST(OtherDevice, IsNotTheHosts) {
  const torch::Tensor x = torch::arange(6, torch::kFloat32), moved = x.to(other_device());
  EXPECT_FALSE(moved.is_cpu());
  EXPECT_NE(std::memcmp(moved.data_ptr(), x.data_ptr(), x.nbytes()), 0) << "by address it is nonsense";
  EXPECT_TRUE(torch::equal((moved * 2).cpu(), x * 2));
}

TEST(OtherDevice, GradientsAndBuffersComeToTheHostAndParametersGoThere) {
  const auto here = std::make_shared<OnDevice>(), elsewhere = std::make_shared<OnDevice>();
  elsewhere->to(other_device());
  WatchedModel near(here, {.bucket_bytes = 64}), far(elsewhere, {.bucket_bytes = 64});
  ASSERT_EQ(far.host.parameters().count, near.host.parameters().count);
  EXPECT_EQ(floats(far.host.parameters()), floats(near.host.parameters()));
  EXPECT_NE(far.flat.parameters().data, far.host.parameters().data);
  for (int step = 0; step < 3; ++step) {
    std::vector<int> ready(far.flat.layout().buckets.size());
    std::vector<bool> in_time(ready.size());
    near.watch.renew_gradients();
    here->forward(images(step)).square().sum().backward();
    near.watch.collect_gradients();
    far.watch.renew_gradients();
    far.watch.on_ready = [&](std::size_t bucket) {
      const Range range = far.flat.layout().buckets[bucket];
      ++ready[bucket];
      in_time[bucket] = distance(far.host.gradients().slice(range.begin, range.end),
                                 near.host.gradients().slice(range.begin, range.end)) < 1e-4;
    };
    elsewhere->forward(images(step).to(other_device())).square().sum().backward();
    far.watch.on_ready = nullptr;
    far.watch.collect_gradients();
    far.host.buffers_to_host();
    EXPECT_LT(distance(far.host.gradients(), near.host.gradients()), 1e-4) << "step " << step;
    EXPECT_LT(distance(far.host.buffers(), near.host.buffers()), 1e-6) << "step " << step;
    for (std::size_t bucket = 0; bucket < ready.size(); ++bucket)
      EXPECT_EQ(in_time[bucket], ready[bucket] == 1) << "bucket " << bucket;
    EXPECT_EQ(std::count(ready.begin(), ready.end(), 0), 1) << "that of the unused layer";
    // As an optimiser does it, on the host.
    for (const HostCopy* host : {&near.host, &far.host}) {
      const auto parameters = host->parameters().as<float>(), gradients = host->gradients().as<float>();
      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.001f * gradients[i];
    }
    if (step == 0) {
      far.host.state_to_device();
    } else {
      for (std::size_t bucket = 0; bucket < ready.size(); ++bucket) far.host.parameters_to_device(bucket);
    }
  }
  far.host.parameters_to_host();
  EXPECT_LT(distance(far.host.parameters(), near.host.parameters()), 1e-5);
}

TEST(OtherDevice, AModelOfTwoDevicesIsRefused) {
  const auto net = std::make_shared<OnDevice>();
  net->head->to(other_device());
  try {
    FlatModel(net, {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("head.weight is on"), std::string::npos) << error.what();
  }
}

TEST(OtherDevice, AJobEndsWithTheCpusWeights) {
  strategy::Plan plan;
  plan.max_steps = 10;
  plan.optimiser.momentum = 0.9;
  plan.learning_rate.base = 0.05;
  for (const char* strategy : {"ring", "ddp", "local-sgd"}) {
    for (const bool forward : {false, true}) {
      if (forward && std::string(strategy) != "ddp") continue;
      plan.exchange.forward = forward;
      TorchOptions options;
      options.flat.bucket_bytes = 100;
      const auto expected = train_over_tcp(strategy, 2, plan, options);
      options.device = other_device();
      const auto found = train_over_tcp(strategy, 2, plan, options);
      for (int rank = 0; rank < 2; ++rank) {
        ASSERT_EQ(found[rank].weights.size(), expected[rank].weights.size());
        double far = 0;
        for (std::size_t i = 0; i < found[rank].weights.size(); ++i)
          far = std::max<double>(far, std::abs(found[rank].weights[i] - expected[rank].weights[i]));
        EXPECT_LT(far, 1e-5) << strategy << (forward ? " forward" : "") << " rank " << rank;
      }
    }
  }
}

TEST(OtherDevice, EvaluatesAndShowsWhatTheHostHolds) {
  const auto make = [](Runtime& runtime, observe::Recorder& recorder, torch::Device device) {
    std::shared_ptr<data::Dataset> digits = data::open_dataset("digits", data::Split::train, {.train_samples = 100});
    const auto loader = [&] { return data::Loader(digits, data::Sampler(100, {.batch = 20}), {}, {}, 0); };
    torch::manual_seed(1);
    return std::make_unique<TorchLearner>(runtime, recorder, std::make_shared<testing::SmallNet>(), loader(), loader(),
                                          TorchOptions{.device = device});
  };
  const auto runtime = real_runtime(0);
  observe::Recorder recorder(*runtime, nullptr, nullptr);
  const auto here = make(*runtime, recorder, torch::kCPU), elsewhere = make(*runtime, recorder, other_device());
  std::vector<strategy::Evaluation> found;
  const auto evaluate = [](TorchLearner* learner, std::vector<strategy::Evaluation>* found) -> Task<> {
    found->push_back(co_await learner->evaluate(0, 1));
  };
  for (TorchLearner* learner : {here.get(), elsewhere.get()}) {
    for (float& weight : learner->parameters().as<float>()) weight *= 1.5f;  // as an exchange does it
    runtime->spawn("evaluate", evaluate(learner, &found));
    runtime->run();
  }
  EXPECT_EQ(found[1].correct, found[0].correct);
  EXPECT_NEAR(found[1].loss, found[0].loss, 1e-3);
  const NamedTensors a = state_dict(here->model()), b = state_dict(elsewhere->model());
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i].second, b[i].second.cpu())) << a[i].first;
}

TEST(OtherDevice, ADroppedPassLeavesNothingBehind) {
  const auto runtime = real_runtime(0);
  testing::PassJob plain(*runtime, Precision::fp32, 2, other_device()),
      dropping(*runtime, Precision::fp32, 2, other_device());
  testing::expect_drops_leave_nothing(*runtime, *plain.learner, plain.counters(), *dropping.learner,
                                      dropping.counters());
}

TEST(FindDevice, NamesWhatThereIs) {
  EXPECT_TRUE(find_device("cpu", 3).is_cpu());
  EXPECT_THROW(find_device("tpu", 0), Error);
  if (torch::cuda::device_count() > 0) {
    EXPECT_TRUE(find_device("cuda", 0).is_cuda());
    return;
  }
  try {
    find_device("cuda", 0);
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("no GPU to compute on"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ripieno::train
