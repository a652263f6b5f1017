#include <gtest/gtest.h>

#include "ripieno/numeric/elementwise.h"
#include "tests/support/job.h"

namespace ripieno::strategy {
namespace {

using testing::distance;
using testing::Job;
using testing::LinearOptions;
using testing::sgd;

testing::LinearOptions timed() { return {.samples = 96, .sample_cost = Duration(100'000'000)}; }

TEST(LeaderRing, GoesOnWithoutWorkersThatDied) {
  // The leader, rank 3, dies at many different times; then the next leader, rank 2.
  Job whole("leader-ring", 4, sgd(6), timed());
  whole.run();
  const double all = seconds(whole.took), learnt = whole.recorders[0]->epochs().back().accuracy;
  for (int i = 1; i < 40; ++i) {
    Job job("leader-ring", 4, sgd(6), timed());
    job.cluster.kill_at(from_seconds(all * i / 60), 3);
    job.cluster.kill_at(from_seconds(all * i / 60 + all / 4), 2);
    job.run();
    EXPECT_TRUE(job.cluster.network().dead(3));
    EXPECT_EQ(job.weights(0), job.weights(1)) << i;
    EXPECT_EQ(job.recorders[0]->steps(), 36u) << i;
    EXPECT_EQ(job.recorders[1]->steps(), 36u) << i;
    ASSERT_EQ(job.recorders[0]->epochs().size(), 6u) << i;
    EXPECT_GE(job.recorders[0]->epochs().back().accuracy, 0.75 * learnt) << i;
    EXPECT_EQ(job.recorders[0]->epochs().back().accuracy, job.recorders[1]->epochs().back().accuracy) << i;
  }
}

TEST(LeaderRing, SurvivorsTakeTheStepsOfTheirOwnSamples) {
  // Rank 3 dies in its first pass: from then on, the other three are one worker with three parts of each batch.
  Job job("leader-ring", 4, sgd(2), {.samples = 96, .sample_cost = Duration(10'000'000'000)});
  job.cluster.kill_at(Duration(20'000'000'000), 3);
  job.run();

  // The same by hand: batches of 16 in four parts of 4, of which the last is lost.
  Job alone("single", 1, sgd(2), timed());
  alone.make();
  data::Sampler batches(96, alone.options[0].sampler);
  std::vector<double> w(13), momentum(13);
  bool first = true;
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (std::uint32_t k = 0; k < 6; ++k) {
      const auto batch = batches.batch(epoch, k).indices;
      std::vector<double> gradient(13);
      for (std::size_t i = 0; i < 12; ++i) {
        const auto [x, y] = alone.learners[0]->sample(batch[i]);
        double error = -y;
        for (std::size_t j = 0; j < 13; ++j) error += w[j] * x[j];
        for (std::size_t j = 0; j < 13; ++j) gradient[j] += error * x[j] / 12;
      }
      for (std::size_t j = 0; j < 13; ++j) {
        momentum[j] = first ? gradient[j] : 0.9 * momentum[j] + gradient[j];
        w[j] -= 0.1 * momentum[j];
      }
      first = false;
    }
  }
  EXPECT_LE(testing::distance(job.weights(), w), 1e-12);
}

TEST(LeaderRing, TheDeathOfAnotherRankIsSurvivedToo) {
  for (int dead = 0; dead < 5; ++dead) {
    Job job("leader-ring", 5, sgd(3), timed());
    job.cluster.kill_at(Duration(4'000'000'000), dead);
    job.run();
    const int alive = dead == 0 ? 1 : 0;
    for (int rank = 0; rank < 5; ++rank) {
      if (rank != dead) {
        EXPECT_EQ(job.weights(rank), job.weights(alive));
      }
    }
  }
}

TEST(LeaderRing, ADeathAmidTheAverageOfBuffersSpoilsNone) {
  // At the first epoch's end rank r's buffers are r + 1; averaging them takes longer than the epoch's only step.
  std::vector<Duration> ends;  // of rank 0's steps
  const auto run = [&ends](int dead, Duration when) {
    const testing::LinearOptions learner{.samples = 16, .buffers = 4000, .sample_cost = Duration(10'000'000)};
    auto job = std::make_unique<Job>("leader-ring", 4, sgd(2), learner);
    ends.clear();
    job->on_step = [&ends, made = job.get()](int rank, const observe::StepRecord& record) {
      const auto buffers = made->learners[rank]->buffers().as<double>();
      if (record.step == 0) std::fill(buffers.begin(), buffers.end(), rank + 1.0);
      if (rank == 0) ends.push_back(made->cluster.runtime().now());
    };
    if (dead > 0) job->cluster.kill_at(when, dead);
    job->run();
    return job;
  };
  run(0, {});
  const Duration begin = ends.at(0), end = ends.at(1);
  int of_four = 0, of_three = 0;
  for (int i = 0; i < 120; ++i) {
    const int dead = 1 + i % 3;
    const auto job = run(dead, begin + (end - begin) * i / 120);
    const auto first = job->learners[0]->buffers().as<double>();
    const double with = 2.5, without = (10 - (dead + 1)) / 3.0;  // the mean, had the rank a part in it or not
    const bool four = std::abs(first[0] - with) < 1e-12;
    ++(four ? of_four : of_three);
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == dead) continue;
      for (const double x : job->learners[rank]->buffers().as<double>()) {
        ASSERT_NEAR(x, four ? with : without, 1e-12) << i << " rank " << rank;
      }
    }
  }
  EXPECT_GE(of_four, 10);
  EXPECT_GE(of_three, 10);
}

TEST(LeaderRing, WhoHandsTheOutcomeOverMayDieMeanwhile) {
  // Rank 2 dies within a step, and the leader, who alone may have committed it, while the others catch up.
  const testing::LinearOptions learner{.samples = 96,
                                       .features = 400,
                                       .buffers = 3,
                                       .bucket_elements = 400,
                                       .sample_cost = std::chrono::milliseconds(1)};
  transport::SimulatedOptions network;
  network.link = {.latency = std::chrono::milliseconds(1), .per_byte = std::chrono::microseconds(1)};
  network.detection = std::chrono::microseconds(100);
  std::vector<Duration> ends;  // of the leader's steps
  Job whole("leader-ring", 4, sgd(1, 0.001), learner, 16, network);
  whole.on_step = [&](int rank, const observe::StepRecord&) {
    if (rank == 3) ends.push_back(whole.cluster.runtime().now());
  };
  whole.run();
  int caught_up = 0;
  for (int i = 0; i < 40; ++i) {
    for (int later = 0; later < 20; ++later) {
      Job job("leader-ring", 4, sgd(1, 0.001), learner, 16, network);
      const Duration when = ends.at(3) + (ends.at(4) - ends.at(3)) * i / 40;
      job.cluster.kill_at(when, 2);
      job.cluster.kill_at(when + std::chrono::milliseconds(2 * later), 3);
      job.run();
      ASSERT_EQ(job.weights(0), job.weights(1)) << i << ' ' << later;
      caught_up += job.recorders[0]->steps() == 6;
    }
  }
  EXPECT_EQ(caught_up, 40 * 20);
}

TEST(LeaderRing, TheLastWorkerGoesOnAlone) {
  Job job("leader-ring", 3, sgd(4), timed());
  job.cluster.kill_at(Duration(2'000'000'000), 2);
  job.cluster.kill_at(Duration(3'000'000'000), 1);
  job.run();
  EXPECT_EQ(job.recorders[0]->steps(), 24u);
}

}  // namespace
}  // namespace ripieno::strategy
