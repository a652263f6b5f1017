// What an own loop on several workers says when it cannot be right, and that all workers can go on after an error of
// one.
#include <ATen/autocast_mode.h>

#include <thread>

#include "tests/train/own_loops.h"

namespace ripieno::train {
namespace {

using namespace testing;  // NOLINT

TEST(LoopErrors, AnotherModelOrOptionIsNamed) {
  using Change = std::function<void(torch::nn::Linear&, ParallelOptions&)>;  // rank 1's
  const auto refused = [](const std::vector<std::string>& words, const Change& change) {
    expect_refused(words, words[0], [&](transport::Cluster& cluster) {
      torch::nn::Linear model = linear(5, 6);
      model->register_buffer("count", torch::zeros({2}, torch::kInt64));
      ParallelOptions options;
      if (cluster.endpoint->rank() == 1) change(model, options);
      torch::optim::SGD optimiser(model->parameters(), 0.1);
      parallel(model, optimiser, cluster, options);
    });
  };
  refused({"rank 1", "weight", "[6, 5]", "[4, 8]"}, [](auto& model, auto&) {
    model = linear(8, 4);
    model->register_buffer("count", torch::zeros({2}, torch::kInt64));
  });
  refused({"rank 1", "bias", "frozen", "trained"}, [](auto& model, auto&) { model->bias.requires_grad_(false); });
  refused({"count", "Int", "Long"}, [](auto& model, auto&) {
    model = linear(5, 6);
    model->register_buffer("count", torch::zeros({2}, torch::kInt32));
  });
  refused({"more", "nothing more"}, [](auto& model, auto&) { model->register_buffer("more", torch::zeros({2})); });
  refused({"overlap 1", "overlap 0"}, [](auto&, auto& options) { options.overlap = true; });
  refused({"bucket_mb 3", "bucket_mb 25"}, [](auto&, auto& options) { options.bucket_mb = 3; });
}

TEST(LoopErrors, DifferentOperationsNeverMeet) {
  for (const auto& [overlap, local_steps] : {std::pair{false, 1}, {true, 1}, {false, 2}}) {
    expect_refused({"rank 0 is in step()", "rank 1 in sum()"}, "another number of steps",
                   [&](transport::Cluster& cluster) {
                     Worker worker(cluster, overlapping(overlap, local_steps));
                     for (int step = 0; step < (worker.rank == 0 ? 4 : 2); ++step) worker.step(step);
                     EXPECT_NE(worker.dp.sum(101), 102);
                   });
  }
  expect_refused({"model 2", "parallel()"}, "another number of models", [](transport::Cluster& cluster) {
    Worker worker(cluster);
    if (worker.rank == 0) Worker second(cluster);
    worker.step();
  });
}

TEST(LoopErrors, WhoWaitsForARankThatHasEndedIsTold) {
  for (const bool overlap : {false, true}) {
    const auto errors = on_ranks(2, [&](transport::Cluster& cluster) {
      Worker worker(cluster, overlapping(overlap));
      worker.step();
      if (worker.rank == 1) return cluster.endpoint.reset();
      worker.step();
    });
    EXPECT_EQ(errors[1], "");
    EXPECT_NE(errors[0].find("lost rank 1"), std::string::npos) << errors[0];
    EXPECT_NE(errors[0].find("step() number 2"), std::string::npos) << errors[0];
  }
}

/// Five steps, of which the second throws on some ranks; every rank goes on with the next. Returns what each was told.
Errors errors_of_second_step(const ParallelOptions& options, const std::function<bool(int rank)>& throws) {
  Errors said(3);
  std::vector<std::vector<float>> ends(3);
  const auto errors = on_ranks(3, [&](transport::Cluster& cluster) {
    Worker worker(cluster, options);
    for (int step = 0; step < 5; ++step) {
      try {
        worker.dp.step([&] {
          torch::Tensor loss = worker.loss(step);
          if (step == 1 && throws(worker.rank)) throw std::runtime_error("no such batch");
          loss.backward();
          return loss;
        });
      } catch (const std::exception& error) {
        said[worker.rank] += error.what();
      }
    }
    ends[worker.rank] = weights(*worker.model);
    worker.dp.sum(0);
  });
  EXPECT_EQ(errors, Errors(3));
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(ends[0], ends[2]);
  EXPECT_NE(ends[0], weights(*linear(4, 3)));
  return said;
}

TEST(LoopErrors, AnErrorOfOneClosureIsKnownToAllAndAllGoOn) {
  for (const bool overlap : {false, true}) {
    const std::string told = "rank 2 failed in step() number 2: no such batch";
    EXPECT_EQ(errors_of_second_step(overlapping(overlap), [](int rank) { return rank == 2; }),
              Errors({told, told, "no such batch"}));
    EXPECT_EQ(errors_of_second_step(overlapping(overlap), [](int) { return true; }), Errors(3, "no such batch"));
  }
  const Errors local = errors_of_second_step(overlapping(false, 2), [](int rank) { return rank == 2; });
  EXPECT_EQ(local[2], "no such batch");
  EXPECT_NE(local[0].find("rank 2"), std::string::npos) << local[0];
}

TEST(LoopErrors, GradientsOnTheirWayAreNotForTheClosure) {
  for (const bool overlap : {false, true}) {
    const auto errors = on_ranks(2, [&](transport::Cluster& cluster) {
      Worker worker(cluster, overlapping(overlap));
      worker.dp.step([&] {
        torch::Tensor loss = worker.loss();
        loss.backward();
        torch::nn::utils::clip_grad_norm_(worker.model->parameters(), 1e-3);
        return loss;
      });
    });
    if (overlap) {
      expect_said(errors, {"gradients", "overlap = false"}, "clipped");
    } else {
      EXPECT_EQ(errors, Errors(2));
    }
  }
}

TEST(LoopErrors, AClosureRunsOnTheCallersThread) {
  const int before = torch::get_num_threads();
  const auto errors = on_ranks(1, [&](transport::Cluster& cluster) {
    Worker worker(cluster, overlapping(true));
    std::vector<bool> modes;
    const auto closure = [&, caller = std::this_thread::get_id()] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      modes = {c10::GradMode::is_enabled(), at::autocast::is_autocast_enabled(torch::kCPU)};
      return torch::zeros({});
    };
    for (const int threads : {2, 1, 3}) {
      torch::set_num_threads(threads);
      int seen = 0;
      worker.dp.step([&] {
        seen = torch::get_num_threads();
        return torch::zeros({});
      });
      EXPECT_EQ(seen, threads);
    }
    worker.dp.step(closure);
    EXPECT_EQ(modes, std::vector<bool>({true, false}));
    at::autocast::set_autocast_enabled(torch::kCPU, true);
    const torch::NoGradGuard no_grad;
    worker.dp.step(closure);
    EXPECT_EQ(modes, std::vector<bool>({false, true}));
    at::autocast::set_autocast_enabled(torch::kCPU, false);
    worker.dp.step(closure);
    EXPECT_EQ(modes, std::vector<bool>({false, false}));
  });
  torch::set_num_threads(before);
  EXPECT_EQ(errors, Errors(1));
}

TEST(LoopErrors, WhatCannotBeTrainedIsRefused) {
  expect_refused({"null"}, "no model", [](transport::Cluster& cluster) {
    torch::nn::Linear other = linear(4, 3), none{nullptr};
    torch::optim::SGD optimiser(other->parameters(), 0.1);
    if (cluster.endpoint->rank() == 0) {
      parallel(none, optimiser, cluster);
    } else {
      parallel(std::shared_ptr<torch::nn::Module>(), optimiser, cluster);
    }
  });
  expect_refused({"null"}, "no model on one rank", [](transport::Cluster& cluster) {
    torch::nn::Linear model = linear(4, 3), none{nullptr};
    torch::optim::SGD optimiser(model->parameters(), 0.1);
    parallel(cluster.endpoint->rank() == 0 ? none : model, optimiser, cluster);
  });
  expect_refused({"none of the model's parameters"}, "another's optimiser", [](transport::Cluster& cluster) {
    torch::nn::Linear model = linear(4, 3), other = linear(4, 3);
    torch::optim::SGD optimiser(other->parameters(), 0.1);
    parallel(model, optimiser, cluster);
  });
  expect_refused({"[2, 3]", "before parallel()"}, "a layer added later", [](transport::Cluster& cluster) {
    Worker worker(cluster);
    worker.optimiser.add_param_group(torch::optim::OptimizerParamGroup(linear(3, 2)->parameters()));
    worker.step();
  });
  expect_refused({"bias", "frozen"}, "unfrozen later", [](transport::Cluster& cluster) {
    torch::nn::Linear model = linear(4, 3);
    model->bias.requires_grad_(false);
    torch::optim::SGD optimiser(model->parameters(), 0.1);
    auto dp = parallel(model, optimiser, cluster);
    model->bias.requires_grad_(true);
    dp.step([] { return torch::zeros({}); });
  });
  expect_refused({"weight", "Float", "Double"}, "converted later", [](transport::Cluster& cluster) {
    Worker worker(cluster);
    worker.model->to(torch::kFloat64);
    worker.step();
  });
  expect_refused({"sum()", "overlap"}, "a sum beside the exchange", [](transport::Cluster& cluster) {
    Worker worker(cluster, overlapping(true));
    worker.dp.step([&] { return torch::full({}, worker.dp.sum(1)); });
  });
  expect_refused({"within the closure"}, "a step in a step", [](transport::Cluster& cluster) {
    Worker worker(cluster);
    worker.dp.step([&] {
      worker.step();
      return torch::zeros({});
    });
  });
  expect_refused({"empty closure"}, "no closure", [](transport::Cluster& cluster) { Worker(cluster).dp.step({}); });
}

}  // namespace
}  // namespace ripieno::train
