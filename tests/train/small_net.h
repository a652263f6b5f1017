// A small net without batch norm and dropout, and jobs that train it in virtual time with computing done for real.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <mutex>

#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/strategy/registry.h"
#include "ripieno/testing/interruptions.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno::testing {

struct SmallNet : model::Classifier {
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
      std::string_view strategy, int workers, strategy::Plan plan, train::TorchOptions options = {},
      std::uint32_t global_batch = 30, std::uint32_t samples = 600, int slow_rank = -1,
      std::function<std::shared_ptr<model::Classifier>()> model = [] { return std::make_shared<SmallNet>(); },
      data::AugmentOptions augmentation = {})
      : info(strategy::find_strategy(strategy)),
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
      recorders.push_back(std::make_unique<observe::Recorder>(cluster.runtime(), &cluster.ledger(rank), nullptr));
      learners.push_back(make_learner(cluster.runtime(), *recorders[rank], rank));
    }
  }

  /// A rank's learner, on any runtime. The same weights for all; may be called on several threads at once.
  std::unique_ptr<train::TorchLearner> make_learner(Runtime& runtime, observe::Recorder& recorder, int rank) const {
    data::DataOptions data;
    data.train_samples = samples;
    data.test_samples = 200;
    std::shared_ptr<data::Dataset> train = data::open_dataset("digits", data::Split::train, data),
                                   test = data::open_dataset("digits", data::Split::test, data);
    data::SamplerOptions sampling;
    sampling.worker = std::max(0, info.worker(plan, rank));
    sampling.workers = workers;
    sampling.partition = info.data == strategy::DataUse::global_batches ? data::Partition::global_batches
                         : info.data == strategy::DataUse::shards       ? data::Partition::shards
                                                                        : data::Partition::shards_in_step;
    sampling.batch = info.data == strategy::DataUse::global_batches ? global_batch : global_batch / workers;
    const data::Normalisation normalisation = data::find_dataset("digits").normalisation;
    train::TorchOptions own = options;
    own.worker = sampling.worker;
    if (rank == slow_rank) own.image_cost *= 4;
    static std::mutex seeding;  // torch's generator is everybody's
    const std::lock_guard lock(seeding);
    torch::manual_seed(1);
    return std::make_unique<train::TorchLearner>(
        runtime, recorder, model(),
        data::Loader(train, data::Sampler(train->size(), sampling), augmentation, normalisation, 0),
        data::Loader(test, data::Sampler(test->size(), {.batch = 1}), {}, normalisation, 0), own);
  }

  void run() {
    for (int rank = 0; rank < cluster.size(); ++rank) {
      if (on_step)
        recorders[rank]->on_step = [this, rank](const observe::StepRecord& record) { on_step(rank, record); };
      strategy::Workplace place{cluster.comm(rank), *learners[rank], *recorders[rank], nullptr, nullptr};
      if (interruptions) {
        interruptions->let(rank, place);
        const std::uint64_t steps = std::uint64_t{plan.epochs} * learners[rank]->steps_per_epoch();
        recorders[rank]->on_step = [this, rank, steps](const observe::StepRecord& record) {
          if (info.has_servers && record.step + 1 == steps) interruptions->has_trained(rank);
          if (on_step) on_step(rank, record);
        };
        recorders[rank]->on_epoch = [this, rank](const observe::EpochRecord& record) {
          if (!info.has_servers && record.epoch + 1 == plan.epochs) interruptions->has_trained(rank);
        };
        if (info.worker(plan, rank) < 0) interruptions->has_trained(rank);  // a server, which begins none
      }
      strategies.push_back(strategy::make_strategy(info, plan, std::move(place)));
    }
    cluster.run([this](collective::Communicator comm) { return strategies[comm.rank()]->run(); });
  }

  NumberSpan weights() { return strategies[0]->consensus(); }

  const strategy::StrategyInfo& info;
  int workers;
  strategy::Plan plan;
  train::TorchOptions options;
  std::uint32_t global_batch, samples;
  int slow_rank;
  std::function<std::shared_ptr<model::Classifier>()> model;
  data::AugmentOptions augmentation;
  collective::VirtualCluster cluster;
  std::vector<std::unique_ptr<observe::Recorder>> recorders;
  std::vector<std::unique_ptr<train::TorchLearner>> learners;
  std::vector<std::unique_ptr<strategy::Strategy>> strategies;
  std::function<void(int rank, const observe::StepRecord&)> on_step;
  testing::Interruptions* interruptions = nullptr;  ///< set before run(): of a run that is interrupted
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
