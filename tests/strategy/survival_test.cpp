// Workers that go on without others, over real links: they end as in virtual time.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ripieno/testing/trial.h"
#include "tests/strategy/linked_rank.h"
#include "tests/support/job.h"

namespace ripieno::strategy {
namespace {

using testing::LinkedRank;
using testing::Way;

class OverTcpSurvival : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(By, OverTcpSurvival, ::testing::Values(Way::tcp, Way::shared), testing::way_of);

constexpr std::uint32_t epochs_of_job = 3, steps_of_epoch = 6;
constexpr Duration half_of_a_pass = std::chrono::milliseconds(20);  // in virtual time: of two samples or more
testing::LinearOptions slow_learner() {
  return {.samples = 96, .buffers = 3, .sample_cost = std::chrono::milliseconds(10)};
}

/// Rank and step, from 0: before its pass the rank dies.
struct DeathBefore {
  int rank;
  std::uint64_t step;
};

/// Whether the rank dies after this step.
bool dies_after(const observe::StepRecord& record, int rank, const std::vector<DeathBefore>& deaths) {
  const auto is_this = [&](const DeathBefore& death) { return death.rank == rank && record.step + 1 == death.step; };
  return std::any_of(deaths.begin(), deaths.end(), is_this);
}

/// What rank 0 ends with.
struct EndOfRank0 {
  std::vector<double> weights, buffers;
  double accuracy = 0;
};

EndOfRank0 in_virtual_time(int workers, const std::vector<DeathBefore>& deaths) {
  testing::Job job("leader-ring", workers, testing::sgd(epochs_of_job), slow_learner());
  Runtime& runtime = job.cluster.runtime();
  job.on_step = [&](int rank, const observe::StepRecord& record) {
    const auto kill = [&job, rank] { job.cluster.network().kill(rank); };
    if (dies_after(record, rank, deaths)) runtime.call_at(runtime.now() + half_of_a_pass, kill);
  };
  job.run();
  const auto buffers = job.learners[0]->buffers().as<double>();
  return {job.weights(0), {buffers.begin(), buffers.end()}, job.recorders[0]->epochs().back().accuracy};
}

/// How many steps each rank has committed. A rank that is about to die waits until all have committed the step: else
/// the death decides whether they take it with that rank's samples or, again, without.
class Committed {
 public:
  explicit Committed(int ranks) : steps_(static_cast<std::size_t>(ranks)) {}

  void record(int rank) { ++steps_[static_cast<std::size_t>(rank)]; }
  void died(int rank) { steps_[static_cast<std::size_t>(rank)] = epochs_of_job * steps_of_epoch; }
  void wait_for_all(std::uint64_t step) const {
    const auto has = [step](const auto& steps) { return steps >= step; };
    while (!std::all_of(steps_.begin(), steps_.end(), has)) std::this_thread::yield();
  }

 private:
  std::vector<std::atomic<std::uint64_t>> steps_;
};

testing::LinkedRanks over_links(Way way, int workers, const std::vector<DeathBefore>& deaths) {
  testing::Job options("leader-ring", workers, testing::sgd(epochs_of_job), {.samples = 96, .buffers = 3});
  options.make();
  Committed committed(workers);
  const auto dies = [&](int rank, LinkedRank& own) {
    own.recorder.on_step = [&committed, &deaths, rank](const observe::StepRecord& record) {
      committed.record(rank);
      if (!dies_after(record, rank, deaths)) return;
      committed.wait_for_all(record.step + 1);
      committed.died(rank);
      fail(ErrorKind::data, "dies");
    };
  };
  return testing::train_over_links(way, options.info, options.plan, options.options, dies);
}

/// A run with these deaths takes the steps that it takes in virtual time, bit by bit.
void expect_the_same(Way way, int workers, const std::vector<DeathBefore>& deaths) {
  const auto ranks = over_links(way, workers, deaths);
  const EndOfRank0 expected = in_virtual_time(workers, deaths);
  for (int rank = 0; rank < workers; ++rank) {
    LinkedRank& own = *ranks[static_cast<std::size_t>(rank)];
    const auto is_own = [rank](const DeathBefore& death) { return death.rank == rank; };
    if (std::any_of(deaths.begin(), deaths.end(), is_own)) {
      EXPECT_EQ(own.error, "dies") << rank;
      continue;
    }
    ASSERT_EQ(own.error, "") << rank;
    EXPECT_EQ(own.recorder.steps(), epochs_of_job * steps_of_epoch) << rank;
    EXPECT_EQ(own.own(), expected.weights) << rank;
    const auto buffers = own.learner.buffers().as<double>();
    EXPECT_EQ(std::vector<double>(buffers.begin(), buffers.end()), expected.buffers) << rank;
    ASSERT_EQ(own.recorder.epochs().size(), epochs_of_job) << rank;
    EXPECT_EQ(own.recorder.epochs().back().accuracy, expected.accuracy) << rank;
  }
}

TEST_P(OverTcpSurvival, TheOthersGoOnWithoutAWorker) {
  for (int dead = 1; dead < 4; ++dead) {
    for (const std::uint64_t step : {1u, 5u, 6u, 13u}) expect_the_same(GetParam(), 4, {{dead, step}});
  }
}

TEST_P(OverTcpSurvival, OneAfterTheOtherUntilRank0TrainsAlone) {
  expect_the_same(GetParam(), 4, {{3, 2}, {1, 7}, {2, 12}});
}

TEST_P(OverTcpSurvival, SeveralAtOnce) { expect_the_same(GetParam(), 5, {{3, 4}, {1, 4}}); }

TEST_P(OverTcpSurvival, WhereverTheOthersAreWhenItDies) {
  // Right after its commit, while others still receive the average, or are at the epoch's end.
  for (std::uint64_t run = 0; run < 40; ++run) {
    const DeathBefore death{1 + static_cast<int>(run % 4), 6 * (1 + run % 2)};
    const auto dies = [&death](int rank, LinkedRank& own) {
      own.recorder.on_step = [rank, &death, &own](const observe::StepRecord& record) {
        if (rank == death.rank && record.step + 1 == death.step) own.die();
      };
    };
    testing::Job options("leader-ring", 5, testing::sgd(epochs_of_job), {.samples = 96, .buffers = 3000});
    options.make();
    const auto ranks = testing::train_over_links(GetParam(), options.info, options.plan, options.options, dies);
    for (int rank = 0; rank < 5; ++rank) {
      LinkedRank& own = *ranks[static_cast<std::size_t>(rank)];
      ASSERT_EQ(own.error, rank == death.rank ? "dies" : "") << rank << " in run " << run;
      if (rank == death.rank) continue;
      EXPECT_EQ(own.recorder.steps(), epochs_of_job * steps_of_epoch) << rank << " in run " << run;
      EXPECT_EQ(own.own(), ranks[0]->own()) << rank << " in run " << run;
    }
  }
}

TEST_P(OverTcpSurvival, AnotherDiesInTheElection) {
  // Rank 2, whom the others wait for, waits for rank 1.
  const auto dies = [](int rank, LinkedRank& own) {
    own.recorder.on_step = [rank, &own](const observe::StepRecord& record) {
      if (rank == 3 && record.step == 4) own.die();
    };
    if (rank == 1) own.when_regrouped = [&own] { own.die(); };
  };
  testing::Job options("leader-ring", 4, testing::sgd(epochs_of_job), {.samples = 96, .buffers = 3});
  options.make();
  const auto ranks = testing::train_over_links(GetParam(), options.info, options.plan, options.options, dies);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ranks[static_cast<std::size_t>(rank)]->error, "") << rank;
    EXPECT_EQ(ranks[static_cast<std::size_t>(rank)]->own(), ranks[0]->own()) << rank;
  }
}

TEST_P(OverTcpSurvival, NobodyGoesOnWithoutRank0) {
  const auto ranks = over_links(GetParam(), 3, {{0, 4}});
  for (const int rank : {1, 2})
    EXPECT_NE(ranks[static_cast<std::size_t>(rank)]->error.find("rank 0"), std::string::npos)
        << ranks[static_cast<std::size_t>(rank)]->error;
}

}  // namespace
}  // namespace ripieno::strategy
