#include "ripieno/strategy/server_shard.h"

#include <gtest/gtest.h>

#include <map>

#include "ripieno/core/random.h"
#include "ripieno/testing/trial.h"

namespace ripieno::strategy {
namespace {

constexpr int workers = 3;
constexpr std::int64_t steps = 20;
constexpr std::size_t numbers = 5;

/// A shard without a network.
struct Alone {
  explicit Alone(Pace pace)
      : learner(cluster.runtime(), {.sampler = {.batch = 1}}), recorder(cluster.runtime(), nullptr, nullptr) {
    plan.optimiser = {.name = "adam"};
    plan.servers.staleness = 2;
    Workplace place{cluster.comm(0), learner, recorder, nullptr, nullptr};
    shard = std::make_unique<ServerShard>(plan, pace, numbers, 0, DType::fp64, place);
    shard->on_applied = [this](const Applied& applied) {
      const auto gradient = applied.gradient.as<double>();
      log.push_back({{gradient.begin(), gradient.end()}, applied.rate});
      if (pace_of_one) ++times[{applied.worker, applied.step}];
    };
    pace_of_one = pace != Pace::together;
    shard->begin({std::vector<double>(workers, 60), std::vector<std::uint32_t>(workers, steps)}, false);
  }

  /// Pushes at random times, and some pushes twice, as one does that has not got the answer.
  Task<> push_all(int worker, std::uint64_t seed) {
    Random random(seed, static_cast<std::uint64_t>(worker));
    for (std::int64_t step = 0; step < steps; ++step) {
      co_await cluster.runtime().sleep(Duration(random.below(1'000'000)));
      std::vector<double> gradient(numbers), weights(numbers), again(numbers);
      for (double& x : gradient) x = random.uniform(-1, 1);
      const Push push{.loss = 1, .samples = 3, .finite = random.below(8) > 0, .step = step};
      const NumberSpan pushed(gradient), pulled(weights), pulled_again(again);
      const ShardAnswer answer = co_await shard->exchange(worker, push, pushed, NumberSpan(), pulled);
      if (random.below(3) > 0) continue;
      co_await cluster.runtime().sleep(Duration(random.below(1'000'000)));
      const ShardAnswer repeated = co_await shard->exchange(worker, push, pushed, NumberSpan(), pulled_again);
      EXPECT_EQ(repeated.applied, answer.applied);
    }
  }

  void run(std::uint64_t seed) {
    for (int worker = 0; worker < workers; ++worker)
      cluster.runtime().spawn(text("worker ", worker), push_all(worker, seed));
    cluster.runtime().run();
  }

  struct Update {
    std::vector<double> gradient;
    double rate;
  };

  Plan plan;
  collective::VirtualCluster cluster{1};
  testing::LinearLearner learner;
  observe::Recorder recorder;
  std::unique_ptr<ServerShard> shard;
  std::vector<Update> log;
  std::map<std::pair<int, std::int64_t>, int> times;  // that each push was applied
  bool pace_of_one = false;
};

TEST(ServerShard, ItsLogReplayedGivesItsWeightsHoweverOftenAPushCame) {
  for (const Pace pace : {Pace::together, Pace::own, Pace::bounded}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      Alone alone(pace);
      alone.run(seed);
      for (const auto& [push, times] : alone.times) EXPECT_EQ(times, 1) << push.first << " " << push.second;
      std::vector<double> weights(numbers);
      const auto optimiser = optim::make_optimiser(alone.plan.optimiser, numbers, DType::fp64);
      for (Alone::Update& update : alone.log) {
        optimiser->begin_step();
        optimiser->update(0, NumberSpan(weights), NumberSpan(update.gradient), update.rate);
      }
      const auto of_shard = alone.shard->weights().as<double>();
      EXPECT_EQ(weights, (std::vector<double>{of_shard.begin(), of_shard.end()})) << seed;
      EXPECT_GT(alone.log.size(), pace == Pace::together ? 5u : 40u);
    }
  }
}

TEST(ServerShard, AStepThatIsNotTheWorkersNextIsRefused) {
  Alone alone(Pace::own);
  const auto skip = [](ServerShard* shard) -> Task<> {
    std::vector<double> gradient(numbers);
    const Push push{.samples = 1, .step = 1};
    const NumberSpan pushed(gradient);
    co_await shard->exchange(0, push, pushed, NumberSpan(), pushed);
  };
  alone.cluster.runtime().spawn("worker", skip(alone.shard.get()));
  try {
    alone.cluster.runtime().run();
    ADD_FAILURE() << "a step was left out";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::mismatch);
    EXPECT_NE(std::string(error.what()).find("worker 0 pushes step 1 to a shard that has its steps before 0"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace ripieno::strategy
