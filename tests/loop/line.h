// A net for comparing weights: a line through the samples of testing/linear_learner.h, in fp64, trained in a loop of
// one's own with the batches that a trial of a strategy has; and ranks as threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "ripieno/loop/agree.h"
#include "ripieno/testing/trial.h"

namespace ripieno::loop {

using Numbers = std::vector<double>;

/// Runs `body` on each rank of a group; an exception fails the test.
inline void on_loop_ranks(int size, const std::function<void(const ProcessGroup&)>& body,
                          std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        body(init_process_group(store, rank, size, timeout));
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

/// The first line of the error that `act` throws; "" and a failure if there is none.
inline std::string first_line_of_error(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    const std::string all = error.what();
    return all.substr(0, all.find('\n'));
  }
  ADD_FAILURE() << "there was no error";
  return "";
}

struct Line : torch::nn::Module {
  Line() : weight(register_parameter("weight", torch::zeros({13}, torch::kFloat64))) {}
  Numbers weights() const {
    const double* const data = weight.const_data_ptr<double>();
    return {data, data + weight.numel()};
  }
  torch::Tensor weight;
};

/// The same training, by a trial and by a loop of one's own.
struct SameTraining {
  std::string strategy;
  AgreeOptions options;
  int workers = 3;
  std::uint32_t samples = 96, batch = 12, epochs = 3;
  optim::OptimiserOptions optimiser = {.momentum = 0.9};
  std::vector<double> rates = {0.05, 0.05, 0.005, 0.005};  // of each epoch

  const strategy::StrategyInfo& info() const { return strategy::find_strategy(strategy); }
  testing::LinearOptions learner() const { return {.samples = samples, .bucket_elements = 13}; }

  bool leaves_out(std::uint32_t epoch, std::uint32_t step, std::uint32_t steps) const {
    const bool ends_epoch = step + 1 == steps;
    return ends_epoch && (info().traits.has_cloud || (info().traits.own_pace && epoch + 1 == epochs));
  }

  strategy::Plan plan() const {
    AgreeOptions given = options;
    given.steps_per_epoch = 1;  // so that nothing is refused for want of it
    strategy::Plan plan = plan_of_loop(info(), given, workers);
    plan.epochs = epochs;
    plan.optimiser = optimiser;
    plan.learning_rate = {.schedule = "step", .base = rates[0], .step_epochs = {2}, .step_factor = rates[2] / rates[0]};
    return plan;
  }

  std::unique_ptr<torch::optim::Optimizer> make_optimiser(std::vector<torch::Tensor> parameters) const {
    using namespace torch::optim;
    const auto betas = std::make_tuple(optimiser.beta1, optimiser.beta2);
    if (optimiser.name == "adam") {
      return std::make_unique<Adam>(parameters,
                                    AdamOptions(rates[0]).betas(betas).weight_decay(optimiser.weight_decay));
    }
    if (optimiser.name == "adamw") {
      return std::make_unique<AdamW>(parameters,
                                     AdamWOptions(rates[0]).betas(betas).weight_decay(optimiser.weight_decay));
    }
    return std::make_unique<SGD>(parameters, SGDOptions(rates[0])
                                                 .momentum(optimiser.momentum)
                                                 .nesterov(optimiser.nesterov)
                                                 .weight_decay(optimiser.weight_decay));
  }
};

/// Each rank's weights after each of its steps, and the consensus. There are none after the last step of an epoch where
/// the end of an epoch changes them (only the loop's come after it), and after the last of all where servers know in
/// training alone that it is the last.
struct Path {
  std::vector<std::vector<Numbers>> steps;
  std::vector<Numbers> end;
};

inline Path path_of_trial(const SameTraining& same) {
  const strategy::Plan plan = same.plan();
  testing::Trial trial(same.info(), same.workers, plan, same.learner(), same.batch);
  Path path;
  path.steps.resize(static_cast<std::size_t>(same.workers));
  trial.on_step = [&](int rank, const observe::StepRecord& record) {
    const std::uint32_t steps = trial.learners[rank]->steps_per_epoch();
    if (same.leaves_out(record.epoch, static_cast<std::uint32_t>(record.step % steps), steps)) {
      path.steps[rank].emplace_back();
      return;
    }
    const auto span = trial.learners[rank]->parameters().as<double>();
    path.steps[rank].emplace_back(span.begin(), span.end());
  };
  trial.run();
  path.end.assign(path.steps.size(), trial.weights());
  return path;
}

/// The loss of a batch: half of the mean square error.
inline torch::Tensor loss_of(const Line& line, const testing::LinearLearner& data, const data::SampleBatch& batch) {
  const auto count = static_cast<std::int64_t>(batch.indices.size());
  const torch::Tensor x = torch::empty({count, 13}, torch::kFloat64), y = torch::empty({count}, torch::kFloat64);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [features, value] = data.sample(batch.indices[static_cast<std::size_t>(i)]);
    std::copy(features.begin(), features.end(), x.data_ptr<double>() + i * 13);
    y.data_ptr<double>()[i] = value;
  }
  return (x.mv(line.weight) - y).square().mean() / 2;
}

inline Path path_of_loop(const SameTraining& same) {
  Path path;
  path.steps.resize(static_cast<std::size_t>(same.workers));
  path.end.resize(path.steps.size());
  on_loop_ranks(same.workers, [&](const ProcessGroup& group) {
    const int rank = group->getRank();
    const auto runtime = virtual_runtime(0);
    testing::LinearLearner data(
        *runtime, testing::share_of(same.info(), same.plan(), same.workers, rank, same.learner(), same.batch));
    data::Sampler sampler = data.sampler();
    AgreeOptions options = same.options;
    options.steps_per_epoch = sampler.steps();
    if (same.info().traits.has_cloud) options.samples_per_epoch = sampler.samples();
    const auto line = std::make_shared<Line>();
    const auto optimiser = same.make_optimiser({line->weight});
    Agreement agreement = agree(line, *optimiser, group, same.strategy, options);
    for (std::uint32_t epoch = 0; epoch < same.epochs; ++epoch) {
      optimiser->param_groups()[0].options().set_lr(same.rates[epoch]);
      for (std::uint32_t step = 0; step < sampler.steps(); ++step) {
        const data::SampleBatch batch = sampler.batch(epoch, step);
        optimiser->zero_grad();
        if (!batch.indices.empty()) loss_of(*line, data, batch).backward();
        if (options.uneven_batches) {
          agreement.step(static_cast<std::int64_t>(batch.indices.size()));
        } else {
          agreement.step();
        }
        path.steps[rank].push_back(same.leaves_out(epoch, step, sampler.steps()) ? Numbers() : line->weights());
      }
    }
    agreement.finish();
    path.end[rank] = line->weights();
  });
  return path;
}

/// The greatest distance between two paths, relative to how far the first one's end is from zero.
inline double apart(const Path& one, const Path& other) {
  const double way = testing::distance(one.end[0], Numbers(one.end[0].size()));
  double most = 0;
  EXPECT_EQ(one.steps.size(), other.steps.size());
  for (std::size_t rank = 0; rank < one.steps.size(); ++rank) {
    EXPECT_EQ(one.steps[rank].size(), other.steps[rank].size());
    for (std::size_t step = 0; step < std::min(one.steps[rank].size(), other.steps[rank].size()); ++step) {
      most = std::max(most, testing::distance(one.steps[rank][step], other.steps[rank][step]) / way);
    }
    most = std::max(most, testing::distance(one.end[rank], other.end[rank]) / way);
  }
  return most;
}

inline void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no: " << part;
}

/// One that trains a Line towards its own rank's number.
struct AgreeingRank {
  explicit AgreeingRank(const ProcessGroup& group) : rank(group->getRank()) {}
  void take(Agreement& agreement, int steps = 1) {
    for (int i = 0; i < steps; ++i) {
      optimiser.zero_grad();
      (line->weight - rank).square().sum().backward();
      agreement.step();
    }
  }
  const int rank;
  const std::shared_ptr<Line> line = std::make_shared<Line>();
  torch::optim::SGD optimiser{{line->weight}, 0.1};
};

}  // namespace ripieno::loop
