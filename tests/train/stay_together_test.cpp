// An own loop on several workers stays together: all hold the same parameters and buffers, whatever the user does
// between steps.
#include <sstream>

#include "tests/train/own_loops.h"

namespace ripieno::train {
namespace {

using namespace testing;  // NOLINT

TEST(StayTogether, BuffersOfEveryTypeBeginAsRankZeros) {
  std::vector<std::vector<std::string>> held(2);
  const auto errors = on_ranks(2, [&](transport::Cluster& cluster) {
    const int rank = cluster.endpoint->rank();
    torch::nn::Linear model = linear(4, 3);
    std::vector<torch::Tensor> buffers;
    for (const auto type : {torch::kInt64, torch::kFloat64, torch::kBool, torch::kHalf, torch::kUInt8, torch::kFloat32,
                            torch::kComplexFloat}) {
      buffers.push_back(
          model->register_buffer(text("buffer", buffers.size()), ((torch::arange(5) + rank) % 2 * 7).to(type)));
    }
    torch::optim::SGD optimiser(model->parameters(), 0.1);
    auto dp = parallel(model, optimiser, cluster);
    for (const torch::Tensor& buffer : buffers)
      held[rank].push_back(text(buffer.is_complex() ? torch::view_as_real(buffer) : buffer));
    dp.sum(0);
  });
  EXPECT_EQ(errors, Errors(2));
  EXPECT_EQ(held[0], held[1]);
  EXPECT_NE(held[0][0].find('7'), std::string::npos);
}

struct Normalised : torch::nn::Module {
  Normalised() {
    first = register_module("first", linear(4, 3));
    norm = register_module("norm", torch::nn::BatchNorm1d(3));
    table = register_buffer("table", torch::tensor({-INFINITY, 0.1f, 1 / 3.f}));
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm(first(x)); }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::Tensor table;
};

TEST(StayTogether, BatchNormsStatisticsAgreeUnlessEachWantsItsOwn) {
  for (const Buffers kind : {Buffers::rank0, Buffers::mean, Buffers::own}) {
    for (const auto& [overlap, local_steps] : {std::pair{false, 1}, {true, 1}, {false, 2}}) {
      std::vector<torch::Tensor> mean(2), table(2);
      std::vector<std::int64_t> batches(2);
      const auto errors = on_ranks(2, [&](transport::Cluster& cluster) {
        const int rank = cluster.endpoint->rank();
        const auto model = std::make_shared<Normalised>();
        torch::optim::SGD optimiser(model->parameters(), 0.0);  // so that each rank's own statistics are known
        ParallelOptions options = overlapping(overlap, local_steps);
        options.buffers = kind;
        auto dp = parallel(model, optimiser, cluster, options);
        for (int step = 0; step < local_steps; ++step) {
          dp.step(
              [&] {
                const torch::Tensor loss = model->forward(batch(rank, 0)).square().mean();
                loss.backward();
                return loss;
              },
              rank == 0 ? 3 : 1);
        }
        mean[rank] = model->norm->running_mean.clone();
        table[rank] = model->table.clone();
        batches[rank] = model->norm->num_batches_tracked.item<std::int64_t>();
        dp.sum(0);
      });
      EXPECT_EQ(errors, Errors(2));
      std::vector<torch::Tensor> own;
      for (int rank = 0; rank < 2; ++rank) {
        const auto model = std::make_shared<Normalised>();
        for (int step = 0; step < local_steps; ++step) model->forward(batch(rank, 0));
        own.push_back(model->norm->running_mean);
      }
      EXPECT_FALSE(torch::allclose(own[0], own[1]));
      const torch::Tensor both = (3 * own[0] + own[1]) / 4;
      for (int rank = 0; rank < 2; ++rank) {
        const torch::Tensor expected = kind == Buffers::rank0 ? own[0] : kind == Buffers::mean ? both : own[rank];
        EXPECT_TRUE(torch::allclose(mean[rank], expected)) << rank << " " << mean[rank] << expected;
        EXPECT_TRUE(torch::equal(table[rank], Normalised().table)) << "to the bit";
        EXPECT_EQ(batches[rank], local_steps);
      }
      if (kind != Buffers::own) {
        EXPECT_TRUE(torch::equal(mean[0], mean[1]));
      }
    }
  }
}

std::string saved(double factor) {
  std::ostringstream out;
  torch::save(linear(4, 3, factor), out);
  return out.str();
}

TEST(StayTogether, WeightsThatAllLoadAfterwardsAreTrained) {
  const std::string file = saved(2);
  for (const auto& [overlap, local_steps] : {std::pair{false, 1}, {true, 1}, {false, 2}}) {
    std::vector<std::vector<float>> ends(2), expected(2);
    for (const bool before : {true, false}) {  // loaded before parallel(), and after
      const auto errors = on_ranks(2, [&](transport::Cluster& cluster) {
        torch::nn::Linear model = linear(4, 3);
        const auto load = [&] {
          std::istringstream in(file);
          torch::load(model, in);
        };
        if (before) load();
        torch::optim::SGD optimiser(model->parameters(), 0.1);
        auto dp = parallel(model, optimiser, cluster, overlapping(overlap, local_steps));
        if (!before) load();
        for (int step = 0; step < 4; ++step) {
          dp.step([&] {
            const torch::Tensor loss = model(batch(dp.rank(), step)).square().mean();
            loss.backward();
            return loss;
          });
        }
        (before ? expected : ends)[dp.rank()] = weights(*model);
        dp.sum(0);
      });
      EXPECT_EQ(errors, Errors(2));
    }
    EXPECT_EQ(ends, expected);
    EXPECT_EQ(ends[0], ends[1]);
  }
}

TEST(StayTogether, WhatIsChangedOnSomeWorkersOnlyIsRefused) {
  const std::string file = saved(2);
  for (const auto& [overlap, local_steps] : {std::pair{false, 1}, {true, 1}, {false, 2}}) {
    for (const int who : {0, 1}) {
      expect_refused({"load", "all ranks"}, "loaded", [&](transport::Cluster& cluster) {
        Worker worker(cluster, overlapping(overlap, local_steps));
        if (worker.rank == who) {
          std::istringstream in(file);
          torch::load(worker.model, in);
        }
        for (int step = 0; step < 2; ++step) worker.step(step);
      });
    }
  }
  expect_refused({"rank 1", "other parameters", "step() number 2"}, "scaled", [](transport::Cluster& cluster) {
    Worker worker(cluster);
    worker.step();
    if (worker.rank == 1) worker.model->bias.data().mul_(2);
    worker.step();
  });
  expect_refused({"other parameters", "learning rate"}, "learning rates", [](transport::Cluster& cluster) {
    Worker worker(cluster, {}, cluster.endpoint->rank() == 0 ? 0.1 : 0.5);
    for (int step = 0; step < 3; ++step) worker.step(step);
  });
}

TEST(StayTogether, TwoBackwardPassesAreTheirSumOrRefused) {
  const auto twice = [](Worker& worker) {
    worker.dp.step([&] {
      worker.loss(0).backward();
      torch::Tensor loss = worker.loss(1);
      loss.backward();
      return loss;
    });
  };
  std::vector<std::vector<float>> ends(2), expected(2);
  EXPECT_EQ(on_ranks(2,
                     [&](transport::Cluster& cluster) {
                       Worker worker(cluster, overlapping(false));
                       twice(worker);
                       ends[worker.rank] = weights(*worker.model);
                       worker.dp.sum(0);
                     }),
            Errors(2));
  EXPECT_EQ(on_ranks(2,
                     [&](transport::Cluster& cluster) {
                       Worker worker(cluster, overlapping(true));
                       worker.dp.step([&] {
                         torch::Tensor loss = worker.loss(0) + worker.loss(1);
                         loss.backward();
                         return loss;
                       });
                       expected[worker.rank] = weights(*worker.model);
                       worker.dp.sum(0);
                     }),
            Errors(2));
  EXPECT_EQ(ends[0], ends[1]);
  for (std::size_t i = 0; i < ends[0].size(); ++i) EXPECT_NEAR(ends[0][i], expected[0][i], 1e-6);
  expect_refused({"backward()", "overlap = false"}, "twice", [&](transport::Cluster& cluster) {
    Worker worker(cluster, overlapping(true));
    twice(worker);
  });
}

TEST(StayTogether, AClosureThatStepsItselfIsRefused) {
  for (const auto& [overlap, local_steps] : {std::pair{false, 1}, {true, 1}, {false, 2}}) {
    expect_refused({"optimiser.step()", "closure"}, "step in closure", [&](transport::Cluster& cluster) {
      Worker worker(cluster, overlapping(overlap, local_steps));
      worker.dp.step([&] {
        torch::Tensor loss = worker.loss();
        loss.backward();
        worker.optimiser.step();
        return loss;
      });
    });
  }
}

}  // namespace
}  // namespace ripieno::train
