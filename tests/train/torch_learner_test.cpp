#include "ripieno/train/torch_learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "ripieno/numeric/elementwise.h"
#include "tests/train/small_net.h"

namespace ripieno::train {
namespace {

using testing::copy;
using testing::norm;
using testing::SmallNet;
using testing::TorchJob;

strategy::Plan twenty_steps() {
  strategy::Plan plan;
  plan.epochs = 3;
  plan.max_steps = 20;
  plan.optimiser.momentum = 0.9;
  plan.optimiser.weight_decay = 1e-3;
  plan.learning_rate.base = 0.05;
  return plan;
}

TorchOptions fp64() {
  TorchOptions options;
  options.precision = Precision::fp64;
  options.flat.bucket_bytes = 2000;
  return options;
}

struct Reference {
  std::vector<double> start, end;
};

/// One worker's twenty steps with a batch of `batch`.
Reference one_worker(std::uint32_t batch) {
  TorchJob job("single", 1, twenty_steps(), fp64(), batch);
  Reference reference{copy(job.learners[0]->parameters()), {}};
  job.run();
  reference.end = copy(job.weights());
  return reference;
}

// The mother of all tests: a P-fold batch on one worker, or a batch on each of P workers.
TEST(Exactness, PWorkersTakeTheStepsOfOneWithThePFoldBatch) {
  for (const int workers : {2, 3, 5}) {
    const Reference one = one_worker(8 * workers);
    for (const strategy::StrategyInfo& info : strategy::strategies()) {
      if (!info.exact || info.name == "single") continue;
      TorchJob job(info.name, workers, twenty_steps(), fp64(), 8 * workers);
      job.run();
      EXPECT_LE(norm(copy(job.weights()), one.end) / norm(one.end, one.start), 1e-10) << info.name << " P=" << workers;
      EXPECT_EQ(job.recorders[0]->steps(), 20u);
    }
  }
}

/// As many numbers out of as many pixels as are said.
struct Linear : model::Classifier {
  Linear(int pixels, int numbers) : layer(register_module("layer", torch::nn::Linear(pixels, numbers))) {}
  torch::Tensor forward(torch::Tensor images) override { return layer(images.flatten(1)); }
  torch::nn::Linear layer;
};

/// What a job that trains the model is refused with, in one line.
std::string torch_refusal(std::function<std::shared_ptr<model::Classifier>()> model) {
  try {
    TorchJob job("single", 1, twenty_steps(), {}, 16, 160, -1, std::move(model));
    job.run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    EXPECT_LT(std::string(error.what()).size(), 400u) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

TEST(TorchErrors, AreOneLineWithModelOperationAndShapes) {
  const auto expect = [](const std::string& said, const std::vector<std::string>& words) {
    for (const std::string& word : words) EXPECT_NE(said.find(word), std::string::npos) << said << " without " << word;
  };
  expect(torch_refusal([] { return std::make_shared<Linear>(784, 5); }),
         {"Linear", "forward of images 16x1x28x28", "16x5", "16x10", "10 classes"});
  expect(torch_refusal([] { return std::make_shared<Linear>(100, 10); }),
         {"Linear", "forward of images 16x1x28x28", "16x784", "100x10", "--verbose"});
  struct Backwards : Linear {
    Backwards() : Linear(784, 10) {}
    torch::Tensor forward(torch::Tensor images) override { return Linear::forward(images).detach(); }
  };
  expect(torch_refusal([] { return std::make_shared<Backwards>(); }),
         {"Backwards", "backward from logits 16x10", "grad"});
}

/// A learner whose gradient is lost before it is exchanged.
class Forgetful final : public strategy::Learner {
 public:
  explicit Forgetful(strategy::Learner& inner) : inner_(inner) {}
  const strategy::Layout& layout() const override { return inner_.layout(); }
  NumberSpan parameters() override { return inner_.parameters(); }
  NumberSpan gradients() override { return inner_.gradients(); }
  NumberSpan buffers() override { return inner_.buffers(); }
  std::uint32_t steps_per_epoch() const override { return inner_.steps_per_epoch(); }
  std::uint32_t samples_per_epoch() const override { return inner_.samples_per_epoch(); }
  Task<strategy::Evaluation> evaluate(int part, int parts) override { return inner_.evaluate(part, parts); }
  Gates& gates() override { return inner_.gates(); }
  void commit() override { inner_.commit(); }
  void drop() override { inner_.drop(); }
  Task<std::unique_ptr<strategy::Pass>> begin(data::BatchId batch, strategy::Weighting weighting) override {
    auto pass = co_await inner_.begin(batch, std::move(weighting));
    while (co_await pass->next_bucket()) {
    }
    const strategy::PassResult result = co_await pass->finish();
    numeric::scale(inner_.gradients(), 0);
    co_return std::make_unique<Done>(inner_.layout().buckets.size(), result);
  }

 private:
  struct Done final : strategy::Pass {
    Done(std::size_t buckets, strategy::PassResult result) : left(buckets), result(result) {}
    Task<std::optional<std::size_t>> next_bucket() override {
      if (left == 0) co_return std::nullopt;
      co_return --left;
    }
    strategy::BatchSize size() const override { return result; }
    Task<strategy::PassResult> finish() override { co_return result; }
    std::size_t left;
    strategy::PassResult result;
  };
  strategy::Learner& inner_;
};

TEST(Exactness, IsLostWhenOneRanksGradientIsLeftOut) {
  const Reference one = one_worker(24);
  for (const strategy::StrategyInfo& info : strategy::strategies()) {
    if (!info.exact || info.name == "single") continue;
    TorchJob job(info.name, 3, twenty_steps(), fp64(), 24);
    Forgetful forgetful(*job.learners[1]);
    for (int rank = 0; rank < job.cluster.size(); ++rank) {
      strategy::Learner& learner = rank == 1 ? static_cast<strategy::Learner&>(forgetful) : *job.learners[rank];
      job.strategies.push_back(
          info.make(info, job.plan, {job.cluster.comm(rank), learner, *job.recorders[rank], nullptr}));
    }
    job.cluster.run([&](collective::Communicator comm) { return job.strategies[comm.rank()]->run(); });
    EXPECT_GT(norm(copy(job.weights()), one.end) / norm(one.end, one.start), 1e-3) << info.name;
  }
}

TEST(Exactness, AccumulationGivesTheWholeBatchsGradient) {
  const Reference one = one_worker(24);
  TorchOptions options = fp64();
  options.accumulate = 5;  // parts of 4 and 5 samples
  TorchJob job("ring", 1, twenty_steps(), options, 24);
  job.run();
  EXPECT_LE(norm(copy(job.weights()), one.end) / norm(one.end, one.start), 1e-10);
}

TEST(Agreement, AllRanksHashAlikeAfterEveryStepWithEveryWire) {
  for (const char* wire : {"auto", "fp16", "bf16"}) {
    for (const strategy::StrategyInfo& info : strategy::strategies()) {
      if (!info.exact || info.has_servers || info.name == "single") continue;
      strategy::Plan plan = twenty_steps();
      plan.max_steps = 5;
      plan.exchange.codec.name = wire;
      TorchJob job(info.name, 3, plan);
      std::map<std::uint64_t, std::vector<std::uint64_t>> hashes;
      job.on_step = [&](int rank, const observe::StepRecord& record) {
        hashes[record.step].push_back(numeric::hash(job.learners[rank]->parameters()));
      };
      job.run();
      EXPECT_EQ(hashes.size(), 5u);
      for (const auto& [step, all] : hashes)
        EXPECT_EQ(all, std::vector<std::uint64_t>(3, all[0])) << info.name << " " << wire << " " << step;
    }
  }
}

TEST(EveryStrategy, RepeatsBitForBit) {
  for (const strategy::StrategyInfo& info : strategy::strategies()) {
    if (info.name == "single") continue;
    TorchOptions options;
    options.image_cost = Duration(1'000'000'000);
    std::vector<std::uint64_t> hashes;
    for (int run = 0; run < 2; ++run) {
      TorchJob job(info.name, 3, twenty_steps(), options);
      job.run();
      hashes.push_back(numeric::hash(job.weights()));
    }
    EXPECT_EQ(hashes[0], hashes[1]) << info.name;
  }
}

TEST(Replay, WithoutNumbersTakesTheTimeAndSendsTheBytesOfOneWithThem) {
  for (const strategy::StrategyInfo& info : strategy::strategies()) {
    if (info.name == "single") continue;
    const auto run = [&info](bool numbers) {
      strategy::Plan plan = twenty_steps();
      plan.optimiser.momentum = 0.9;
      TorchOptions options;
      options.replay = strategy::stated_profile(Duration(3'000'000'000), 1);
      options.numbers = numbers;
      TorchJob job(info.name, 3, plan, options);
      job.run();
      std::vector<std::pair<std::vector<Duration>, std::uint64_t>> ranks;
      for (int rank = 0; rank < job.cluster.size(); ++rank) {
        ranks.emplace_back(job.recorders[rank]->epoch_times(), job.cluster.ledger(rank).total().payload_sent);
      }
      return ranks;
    };
    const auto with = run(true), without = run(false);
    EXPECT_EQ(with, without) << info.name;
    EXPECT_GT(with.back().second, 0u) << info.name;
  }
}

TEST(ParameterServer, ComputesForRealWhileASlowWorkerHoldsUpNobody) {
  const auto run = [](int slow_rank) {
    strategy::Plan plan;
    plan.epochs = 2;
    plan.learning_rate.base = 0.05;
    TorchOptions options;
    options.image_cost = Duration(1'000'000'000);
    auto job = std::make_unique<TorchJob>("ps-async", 4, plan, options, 40, 800, slow_rank);
    job->run();
    return job;
  };
  const auto even = run(-1), uneven = run(4), again = run(4);
  for (int rank = 1; rank <= 3; ++rank) {
    const auto took = [rank](const TorchJob& job) {
      double sum = 0;
      for (const Duration epoch : job.recorders[rank]->epoch_times()) sum += seconds(epoch);
      return sum;
    };
    EXPECT_NEAR(took(*uneven) / took(*even), 1, 0.02) << "worker " << rank << " waited";
  }
  std::uint64_t gradients = 0;
  for (const auto& [age, count] : uneven->recorders[0]->ages()) gradients += count;
  EXPECT_EQ(gradients, 4 * 2 * 20u);
  EXPECT_GE(uneven->recorders[4]->ages().rbegin()->first, 9);
  EXPECT_EQ(numeric::hash(uneven->weights()), numeric::hash(again->weights()));
  EXPECT_EQ(uneven->recorders[0]->ages(), again->recorders[0]->ages());
  const auto accuracy = [](const TorchJob& job) { return job.recorders[0]->epochs().back().accuracy; };
  EXPECT_GT(accuracy(*even), 0.45);
  EXPECT_NEAR(accuracy(*uneven), accuracy(*even), 0.1) << "stale gradients of one worker in four cost little";
}

TEST(Federated, LearnsWithRealCompute) {
  strategy::Plan plan;
  plan.epochs = 5;
  plan.learning_rate.base = 0.1;
  TorchJob job("fedavg", 4, plan, {}, 40, 2000);
  job.run();
  EXPECT_EQ(job.recorders[0]->epochs().size(), 5u);
  EXPECT_GT(job.recorders[0]->epochs().back().accuracy, 0.5);
}

TEST(Precision, Bf16AndChannelsLastLearnLikeFp32) {
  std::vector<double> accuracies;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const bool channels_last : {false, true}) {
      strategy::Plan plan;
      plan.epochs = 3;
      plan.optimiser.momentum = 0.9;
      plan.learning_rate.base = 0.05;
      TorchOptions options;
      options.precision = precision;
      options.flat.channels_last = channels_last;
      TorchJob job("ring", 2, plan, options, 40, 2000);
      job.run();
      accuracies.push_back(job.recorders[0]->epochs().back().accuracy);
      EXPECT_EQ(job.learners[0]->parameters().type, DType::fp32);
    }
  }
  for (const double accuracy : accuracies) EXPECT_NEAR(accuracy, accuracies[0], 0.12);
  EXPECT_GT(accuracies[0], 0.5);
}

TEST(Precision, UnknownNamesAreRefused) { EXPECT_THROW(find_precision("fp8"), Error); }

Task<> one_pass(strategy::Learner* learner, strategy::Weighting weighting, std::vector<std::size_t>* buckets,
                strategy::PassResult* result) {
  const data::BatchId batch{0, 0};
  const auto pass = co_await learner->begin(batch, std::move(weighting));
  while (const auto bucket = co_await pass->next_bucket()) buckets->push_back(*bucket);
  *result = co_await pass->finish();
}

TEST(TorchLearner, AnnouncesEveryBucketOnceInBothTimes) {
  for (const auto make : {real_runtime, virtual_runtime}) {
    const auto runtime = make(0);
    observe::Recorder recorder(*runtime, nullptr, nullptr);
    std::shared_ptr<data::Dataset> digits = data::open_dataset("digits", data::Split::train, {.train_samples = 100});
    TorchOptions options;
    options.flat.bucket_bytes = 100;
    TorchLearner learner(*runtime, recorder, std::make_shared<SmallNet>(),
                         data::Loader(digits, data::Sampler(100, {.batch = 20}), {}, {}, 0),
                         data::Loader(digits, data::Sampler(100, {.batch = 20}), {}, {}, 0), options);
    std::vector<std::size_t> buckets;
    strategy::PassResult result;
    runtime->spawn("pass", one_pass(&learner, strategy::unweighted, &buckets, &result));
    runtime->run();
    ASSERT_EQ(learner.layout().buckets.size(), 2u);  // a layer's bias alone is below 100 bytes
    std::sort(buckets.begin(), buckets.end());
    EXPECT_EQ(buckets, (std::vector<std::size_t>{0, 1}));
    EXPECT_EQ(result.samples, 20u);
    EXPECT_NEAR(result.loss, std::log(10), 0.5);
  }
}

TEST(TorchLearner, WeightsTheGradientsAndNotTheLoss) {
  std::shared_ptr<data::Dataset> digits = data::open_dataset("digits", data::Split::train, {.train_samples = 100});
  const data::Loader second_of_three(digits, data::Sampler(100, {.worker = 1, .workers = 3, .batch = 20}), {}, {}, 0);
  for (const std::uint32_t parts : {1, 3}) {
    std::vector<std::vector<double>> gradients;
    std::vector<strategy::PassResult> results;
    for (const strategy::Weighting& weighting : {strategy::unweighted, strategy::Weighting(&strategy::BatchSize::share),
                                                 strategy::Weighting(&strategy::BatchSize::samples)}) {
      const auto runtime = virtual_runtime(0);
      observe::Recorder recorder(*runtime, nullptr, nullptr);
      torch::manual_seed(8);
      TorchOptions options = fp64();
      options.accumulate = parts;
      TorchLearner learner(*runtime, recorder, std::make_shared<SmallNet>(), second_of_three, second_of_three, options);
      std::vector<std::size_t> buckets;
      runtime->spawn("pass", one_pass(&learner, weighting, &buckets, &results.emplace_back()));
      runtime->run();
      gradients.push_back(copy(learner.gradients()));
    }
    ASSERT_EQ(results[0].samples, 7u);
    ASSERT_EQ(results[0].global_samples, 20u);
    EXPECT_EQ(results[1].loss, results[0].loss);
    for (std::size_t i = 0; i < gradients[0].size(); ++i) {
      EXPECT_NEAR(gradients[1][i], gradients[0][i] * 7 / 20, 1e-15);
      EXPECT_NEAR(gradients[2][i], gradients[0][i] * 7, 1e-13);
    }
    EXPECT_GT(norm(gradients[0], std::vector<double>(gradients[0].size())), 1e-3);
  }
}

}  // namespace
}  // namespace ripieno::train
