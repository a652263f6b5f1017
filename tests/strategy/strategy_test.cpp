// What holds for every strategy of the registry, besides its conformance (conformance_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ripieno/numeric/elementwise.h"
#include "ripieno/strategy/refusals.h"
#include "ripieno/testing/conformance.h"
#include "ripieno/testing/trial.h"
#include "tests/support/job.h"

namespace ripieno::strategy {
namespace {

using testing::distance;
using testing::Job;
using testing::sgd;
using testing::single;

/// The strategies that may have so many workers with such a plan.
std::vector<const StrategyInfo*> allowed(const Plan& plan, int workers) {
  std::vector<const StrategyInfo*> list;
  for (const StrategyInfo& info : strategies()) {
    const Choice choice{info, plan, workers};
    const auto applies = [&](const Refusal& refusal) { return refusal.applies(choice); };
    if (std::none_of(refusals().begin(), refusals().end(), applies)) list.push_back(&info);
  }
  return list;
}

/// One worker's plan and batch that an exact strategy's are equal to.
std::vector<double> equal_of(const StrategyInfo& info, Plan plan) {
  return single(plan, {}, 16 * static_cast<std::uint32_t>(info.name == "accumulate" ? plan.passes : 1));
}

TEST(Exact, MoreWorkersThanABatchHasSamplesTakeTheStepsOfOne) {
  Plan plan = sgd(3);
  plan.passes = 3;
  int compared = 0;
  for (const int workers : {5, 16}) {
    for (const StrategyInfo* info : allowed(plan, workers)) {
      if (!info->exact) continue;
      // 103 samples in batches of 16: the last, of 7, is smaller than 16 workers.
      const std::vector<double> one = equal_of(*info, plan), start(one.size(), 0.0);
      Job job(info->name, workers, plan);
      job.run();
      EXPECT_LE(testing::distance(job.weights(), one) / testing::distance(one, start), 1e-12)
          << info->name << " P=" << workers;
      for (int rank = info->servers(plan) + 1; rank < job.cluster.size(); ++rank) {
        EXPECT_EQ(numeric::hash(job.learners[rank]->parameters()), numeric::hash(job.learners[rank - 1]->parameters()))
            << info->name;
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 20);
}

TEST(Accumulate, ExchangesWhatIsLeftAtAnEpochsEnd) {
  const StrategyInfo& info = find_strategy("accumulate");
  Plan plan = sgd(1);
  plan.passes = 3;
  Job job("accumulate", 4, plan);
  job.make();
  const auto bytes = [&](std::uint32_t steps) {
    return info
        .bytes_sent(info, plan, job.learners[0]->layout(),
                    {collective::World(4), std::vector<std::uint32_t>(4, steps), 1}, 0)
        .value();
  };
  EXPECT_GT(bytes(1), 0u);
  for (const auto& [steps, exchanges] :
       {std::pair(1u, 1u), {2u, 1u}, {3u, 1u}, {4u, 2u}, {7u, 3u}, {9u, 3u}, {10u, 4u}}) {
    EXPECT_EQ(info.rounds(plan, steps), exchanges) << steps << " steps";
    EXPECT_EQ(bytes(steps), exchanges * bytes(1)) << steps << " steps";
  }
}

TEST(Apart, EndsWithItsOwnBuffersAndAConsensusOfAll) {
  for (const char* name : {"gossip-pairs", "gossip-exponential", "ring-passes", "ring-groups", "local-sgd", "diloco"}) {
    testing::Trial trial(find_strategy(name), 3, sgd(2), {.samples = 55, .buffers = 3});
    trial.on_step = [&](int rank, const observe::StepRecord&) {  // as batch norm's statistics would be
      for (double& number : trial.learners[rank]->buffers().as<double>()) number += rank + 1;
    };
    trial.run();
    std::vector<double> sum(3);
    std::set<double> own;
    const std::vector<std::uint32_t> samples = trial.learners[0]->sampler().samples_of_all();
    for (int rank = 0; rank < 3; ++rank) {
      const auto buffers = trial.learners[rank]->buffers().as<double>();
      for (std::size_t i = 0; i < 3; ++i) sum[i] += samples[static_cast<std::size_t>(rank)] / 55.0 * buffers[i];
      own.insert(buffers[0]);
    }
    EXPECT_EQ(own.size(), 3u) << name << ": their own, to go on from";
    for (int rank = 0; rank < 3; ++rank) {
      const auto consensus = trial.strategies[rank]->consensus_buffers().as<double>();
      for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(consensus[i], sum[i], 1e-12) << name;
    }
  }
}

TEST(Workers, WeighTheirBuffersByTheirSamples) {
  for (const char* name : {"ring", "ps-sync"}) {
    testing::Trial trial(find_strategy(name), 4, sgd(1),
                         {.samples = 64, .buffers = 3, .sampler = {.shares = {13, 1, 1, 1}}});
    trial.on_step = [&](int rank, const observe::StepRecord&) {  // as batch norm's statistics would be
      const int worker = rank - trial.first_worker();
      for (double& number : trial.learners[rank]->buffers().as<double>()) number = worker + 1;
    };
    trial.run();
    for (const auto& learner : trial.learners) {
      for (const double number : learner->buffers().as<double>())
        EXPECT_NEAR(number, (13 + 2 + 3 + 4) / 16.0, 1e-12) << name;
    }
  }
}

TEST(EveryStrategy, HasAClosedFormOfItsBytesButWhereNumbersDecide) {
  int compared = 0;
  for (const codec::CodecInfo& codec : codec::codecs()) {
    Plan plan = testing::conformance_plan();
    plan.exchange.codec.name = codec.name;
    for (const StrategyInfo* info : allowed(plan, 3)) {
      Job job(info->name, 3, plan);
      job.make();
      const auto bytes = info->bytes_sent(*info, plan, job.learners.back()->layout(), job.workload(), 1);
      EXPECT_EQ(bytes.has_value(), codec.name != "topk-sampled") << info->name << " " << codec.name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 150);
}

TEST(Scale, SixtyFourWorkersTakeTheFormulasTimeAStep) {
  const Duration sample_cost(1'000'000);
  for (const StrategyInfo* info : allowed(sgd(1), 64)) {
    if (!info->exact || info->has_servers || info->route == "any") continue;
    Job job(info->name, 64, sgd(1),
            {.samples = 6400, .features = 640, .bucket_elements = 640, .sample_cost = sample_cost}, 640);
    std::vector<Duration> ends;
    job.on_step = [&](int rank, const observe::StepRecord&) {
      if (rank == 0) ends.push_back(job.cluster.runtime().now());
    };
    job.run();
    // Where ranks end at different times, the next step begins at different times too.
    if (info->route != "ring" && info->route != "halving-doubling" && info->route != "hierarchical") continue;
    // The first steps also wait for the ranks that the initial broadcast reached last.
    EXPECT_EQ(
        (ends[9] - ends[8]).count(),
        (10 * sample_cost + collective::find_route(info->route).time(64, 640 * 8, transport::LinkModel{})).count())
        << info->name;
  }
}

}  // namespace
}  // namespace ripieno::strategy
