// A small net without batch norm and dropout, and jobs that train it in virtual time with computing done for real.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <mutex>

#include "ripieno/strategy/registry.h"
#include "ripieno/testing/interruptions.h"
#include "ripieno/train/torch_learner.h"
#include "tests/support/cluster.h"

namespace ripieno::testing {

struct SmallNet : Classifier {
  SmallNet() {
    convolution = register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 5).stride(3)));
    linear = register_module("linear", torch::nn::Linear(4 * 8 * 8, 10));
  }
  torch::Tensor forward(torch::Tensor images) override { return linear(torch::relu(convolution(images)).flatten(1)); }
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::Linear linear{nullptr};
};

struct TorchJob {
  TorchJob(
      std::string_view strategy, int workers, Plan plan, TorchOptions options = {}, std::uint32_t global_batch = 30,
      std::uint32_t samples = 600, int slow_rank = -1,
      std::function<std::shared_ptr<Classifier>()> model = [] { return std::make_shared<SmallNet>(); },
      AugmentOptions augmentation = {})
      : info(find_strategy(strategy)),
        workers(workers),
        plan(plan),
        options(options),
        global_batch(global_batch),
        samples(samples),
        slow_rank(slow_rank),
        model(std::move(model)),
        augmentation(augmentation),
        cluster(info.ranks(plan, workers)) {
    torch::set_num_threads(1);
    for (int rank = 0; rank < cluster.size(); ++rank) {
      recorders.push_back(std::make_unique<Recorder>(cluster.runtime(), &cluster.ledger(rank), nullptr));
      learners.push_back(make_learner(cluster.runtime(), *recorders[rank], rank));
    }
  }

  /// A rank's learner, on any runtime. The same weights for all; may be called on several threads at once.
  std::unique_ptr<TorchLearner> make_learner(Runtime& runtime, Recorder& recorder, int rank) const {
    DataOptions data;
    data.train_samples = samples;
    data.test_samples = 200;
    std::shared_ptr<Dataset> train = open_dataset("digits", Split::train, data),
                             test = open_dataset("digits", Split::test, data);
    SamplerOptions sampling;
    sampling.worker = std::max(0, info.worker(plan, rank));
    sampling.workers = workers;
    sampling.partition = info.data == DataUse::global_batches ? Partition::global_batches
                         : info.data == DataUse::shards       ? Partition::shards
                                                              : Partition::shards_in_step;
    sampling.batch = info.data == DataUse::global_batches ? global_batch : global_batch / workers;
    const Normalisation normalisation = find_dataset("digits").normalisation;
    TorchOptions own = options;
    own.worker = sampling.worker;
    if (rank == slow_rank) own.image_cost *= 4;
    static std::mutex seeding;  // torch's generator is everybody's
    const std::lock_guard lock(seeding);
    torch::manual_seed(1);
    return std::make_unique<TorchLearner>(
        runtime, recorder, model(), Loader(train, Sampler(train->size(), sampling), augmentation, normalisation, 0),
        Loader(test, Sampler(test->size(), {.batch = 1}), {}, normalisation, 0), own);
  }

  void run() {
    for (int rank = 0; rank < cluster.size(); ++rank) {
      if (on_step) recorders[rank]->on_step = [this, rank](const StepRecord& record) { on_step(rank, record); };
      Workplace place{cluster.comm(rank), *learners[rank], *recorders[rank], nullptr, nullptr};
      if (interruptions) {
        interruptions->let(rank, place);
        const std::uint64_t steps = std::uint64_t{plan.epochs} * learners[rank]->steps_per_epoch();
        recorders[rank]->on_step = [this, rank, steps](const StepRecord& record) {
          if (info.has_servers && record.step + 1 == steps) interruptions->has_trained(rank);
          if (on_step) on_step(rank, record);
        };
        recorders[rank]->on_epoch = [this, rank](const EpochRecord& record) {
          if (!info.has_servers && record.epoch + 1 == plan.epochs) interruptions->has_trained(rank);
        };
        if (info.worker(plan, rank) < 0) interruptions->has_trained(rank);  // a server, which begins none
      }
      strategies.push_back(make_strategy(info, plan, std::move(place)));
    }
    cluster.run([this](Communicator comm) { return strategies[comm.rank()]->run(); });
  }

  NumberSpan weights() { return strategies[0]->consensus(); }

  const StrategyInfo& info;
  int workers;
  Plan plan;
  TorchOptions options;
  std::uint32_t global_batch, samples;
  int slow_rank;
  std::function<std::shared_ptr<Classifier>()> model;
  AugmentOptions augmentation;
  VirtualCluster cluster;
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<std::unique_ptr<TorchLearner>> learners;
  std::vector<std::unique_ptr<Strategy>> strategies;
  std::function<void(int rank, const StepRecord&)> on_step;
  Interruptions* interruptions = nullptr;  ///< set before run(): of a run that is interrupted
};

inline std::vector<double> copy(NumberSpan span) {
  const auto values = span.as<double>();
  return {values.begin(), values.end()};
}

/// Of the difference.
inline double norm(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}

}  // namespace ripieno::testing
