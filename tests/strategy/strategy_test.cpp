#include <gtest/gtest.h>

#include <cmath>

#include "ripieno/core/kernels.h"
#include "ripieno/strategy/registry.h"
#include "tests/support/cluster.h"
#include "tests/support/linear_learner.h"

namespace ripieno {
namespace {

using testing::LinearLearner;
using testing::LinearOptions;
using testing::VirtualCluster;

/// A job in virtual time: one strategy, some workers, one linear learner each.
struct Job {
  Job(std::string_view strategy, int workers, Plan plan, LinearOptions learner = {}, std::uint32_t global_batch = 16)
      : info(find_strategy(strategy)), plan(plan), cluster(info.ranks(workers)) {
    for (int rank = 0; rank < cluster.size(); ++rank) {
      LinearOptions mine = learner;
      const bool shards = info.data == DataUse::shards;
      mine.sampler.workers = workers;
      mine.sampler.worker = std::max(0, info.worker(rank));
      mine.sampler.partition = shards ? Partition::shards : Partition::global_batches;
      mine.sampler.batch = shards ? std::max(1u, global_batch / workers) : global_batch;
      options.push_back(mine);
    }
  }

  void run() {
    for (int rank = 0; rank < cluster.size(); ++rank) {
      learners.push_back(std::make_unique<LinearLearner>(cluster.runtime(), options[rank]));
      recorders.push_back(std::make_unique<Recorder>(cluster.runtime(), &cluster.ledger(rank), nullptr));
      if (on_step) {
        recorders[rank]->on_step = [this, rank](const StepRecord& record) { on_step(rank, record); };
      }
      strategies.push_back(info.make(info, plan, {cluster.group(rank), *learners[rank], *recorders[rank], nullptr}));
    }
    took = cluster.run([&](Group group) { return strategies[group.rank()]->run(); });
  }

  std::vector<double> weights() {
    const auto span = strategies[0]->consensus().as<double>();
    return {span.begin(), span.end()};
  }

  const StrategyInfo& info;
  Plan plan;
  VirtualCluster cluster;
  std::vector<LinearOptions> options;
  std::vector<std::unique_ptr<LinearLearner>> learners;
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<std::unique_ptr<Strategy>> strategies;
  std::function<void(int rank, const StepRecord&)> on_step;
  Duration took{0};
};

Plan sgd(std::uint32_t epochs, double rate = 0.1, double momentum = 0.9) {
  Plan plan;
  plan.epochs = epochs;
  plan.optimiser.momentum = momentum;
  plan.learning_rate.base = rate;
  return plan;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}

std::vector<double> single(Plan plan) {
  Job job("single", 1, plan);
  job.run();
  return job.weights();
}

TEST(Exact, PWorkersTakeTheStepsOfOneWithThePFoldBatch) {
  const std::vector<double> one = single(sgd(3)), start(one.size(), 0.0);
  for (const StrategyInfo& info : strategies()) {
    if (!info.exact) continue;
    for (const int workers : {1, 2, 3, 4, 5, 7, 16}) {
      Job job(info.name, workers, sgd(3));  // 103 samples in batches of 16: the last, of 7, is smaller than 16 workers
      job.run();
      EXPECT_LE(distance(job.weights(), one) / distance(one, start), 1e-12) << info.name << " P=" << workers;
      for (int rank = 1; rank < workers; ++rank) {
        EXPECT_EQ(hash(job.learners[rank]->parameters()), hash(job.learners[0]->parameters()));
      }
    }
  }
}

TEST(Exact, LeavingOneRanksGradientOutIsNoticed) {
  const std::vector<double> one = single(sgd(3)), start(one.size(), 0.0);
  for (const StrategyInfo& info : strategies()) {
    if (!info.exact) continue;
    Job job(info.name, 4, sgd(3));
    job.options[2].leave_out = true;
    job.run();
    EXPECT_GT(distance(job.weights(), one) / distance(one, start), 1e-3) << info.name;
  }
}

TEST(Exact, AllRanksAgreeAfterEveryStepWithEveryWire) {
  for (const StrategyInfo& info : strategies()) {
    if (!info.exact) continue;
    for (const char* wire : {"auto", "fp32", "fp16", "bf16"}) {
      Plan plan = sgd(2);
      plan.wire = wire;
      Job job(info.name, 5, plan);
      std::map<std::uint64_t, std::vector<std::uint64_t>> hashes;
      job.on_step = [&](int rank, const StepRecord& record) {
        hashes[record.step].push_back(hash(job.learners[rank]->parameters()));
      };
      job.run();
      EXPECT_EQ(hashes.size(), 14u);
      for (const auto& [step, all] : hashes) {
        EXPECT_EQ(all, std::vector<std::uint64_t>(5, all[0])) << info.name << " " << wire << " step " << step;
      }
    }
  }
}

TEST(EveryStrategy, LearnsAndRepeatsBitForBit) {
  for (const StrategyInfo& info : strategies()) {
    std::uint64_t first = 0;
    for (int run = 0; run < 2; ++run) {
      Job job(info.name, 4, sgd(30, 0.05), {.buffers = 3, .sample_cost = Duration(1'000'000)});
      job.run();
      const EpochRecord last = job.recorders[0]->epochs().back();
      EXPECT_GT(last.accuracy, 0.95) << info.name;
      const std::uint64_t digest = hash(job.strategies[0]->consensus());
      if (run == 1) {
        EXPECT_EQ(digest, first) << info.name;
      }
      first = digest;
    }
  }
}

TEST(EveryStrategy, SendsTheBytesOfItsClosedForm) {
  for (const StrategyInfo& info : strategies()) {
    for (int workers = 1; workers <= 9; ++workers) {
      for (const char* wire : {"auto", "fp16"}) {
        Plan plan = sgd(2);
        plan.wire = wire;
        Job job(info.name, workers, plan, {.samples = 144, .buffers = 3}, 16);
        job.run();
        std::vector<std::uint32_t> steps;
        for (int rank = info.servers; rank < job.cluster.size(); ++rank) {
          steps.push_back(job.learners[rank]->steps_per_epoch());
        }
        for (int rank = 0; rank < job.cluster.size(); ++rank) {
          const auto expected = info.bytes_sent(info, plan, job.learners[rank]->layout(), rank, job.cluster.size(), steps, 2);
          EXPECT_EQ(job.cluster.ledger(rank).total(Purpose::exchange).payload_sent, expected)
              << info.name << " workers " << workers << " wire " << wire << " rank " << rank;
        }
      }
    }
  }
}

TEST(ParameterServer, NobodyWaitsForASlowWorkerAndAgesAreRecorded) {
  const auto run = [](double slow) {
    auto job = std::make_unique<Job>("ps-async", 4, sgd(4, 0.05, 0), LinearOptions{.samples = 400, .sample_cost = Duration(10'000'000'000)});
    job->options[4].sample_cost = Duration(static_cast<std::int64_t>(1e10 * slow));
    job->run();
    return job;
  };
  const auto even = run(1), uneven = run(4);
  for (int rank = 1; rank <= 3; ++rank) {
    // The time until a worker's last epoch ends hardly changes when another is slow.
    const auto finish = [rank](const Job& job) {
      Duration sum{0};
      for (const Duration d : job.recorders[rank]->epoch_times()) sum += d;
      return seconds(sum);
    };
    EXPECT_NEAR(finish(*uneven) / finish(*even), 1.0, 0.01) << "worker " << rank;
  }
  EXPECT_GT(seconds(uneven->took) / seconds(even->took), 3.5);
  std::uint64_t gradients = 0;
  for (const auto& [age, count] : uneven->recorders[0]->ages()) gradients += count;
  EXPECT_EQ(gradients, 4 * 4 * 25u);
  EXPECT_GE(uneven->recorders[4]->ages().rbegin()->first, 9);  // the slow worker's: three others moved on by four steps
  EXPECT_LE(even->recorders[1]->ages().rbegin()->first, 6);
}

TEST(Scale, SixtyFourWorkersTakeTheFormulasTimeAStep) {
  const Duration sample_cost(1'000'000);
  for (const StrategyInfo& info : strategies()) {
    if (!info.exact) continue;
    Job job(info.name, 64, sgd(1),
            {.samples = 6400, .features = 640, .bucket_elements = 640, .sample_cost = sample_cost}, 640);
    std::vector<Duration> ends;
    job.on_step = [&](int rank, const StepRecord&) {
      if (rank == 0) ends.push_back(job.cluster.runtime().now());
    };
    job.run();
    if (info.route == "gather-scatter" || info.route == "reduce-broadcast") continue;  // their ranks end at different times
    // The first steps also wait for the ranks that the initial broadcast reached last.
    EXPECT_EQ((ends[9] - ends[8]).count(),
              (10 * sample_cost + find_route(info.route).time(64, 640 * 8, LinkModel{})).count())
        << info.name;
  }
}

Task<> run_and_catch(Strategy* strategy, std::string* what) {
  try {
    co_await strategy->run();
  } catch (const Error& error) {
    *what = error.what();
  }
}

TEST(EveryStrategy, NamesTheRankWithAnotherModel) {
  for (const StrategyInfo& info : strategies()) {
    Job job(info.name, 3, sgd(1));
    job.options[1].features = 14;
    for (int rank = 0; rank < job.cluster.size(); ++rank) {
      job.learners.push_back(std::make_unique<LinearLearner>(job.cluster.runtime(), job.options[rank]));
      job.recorders.push_back(std::make_unique<Recorder>(job.cluster.runtime(), nullptr, nullptr));
      job.strategies.push_back(info.make(info, job.plan, {job.cluster.group(rank), *job.learners[rank], *job.recorders[rank], nullptr}));
    }
    std::vector<std::string> what(job.cluster.size());
    try {
      job.cluster.run([&](Group group) { return run_and_catch(job.strategies[group.rank()].get(), &what[group.rank()]); });
    } catch (const Error&) {  // the others may be left waiting: what matters is that the cause is named
    }
    EXPECT_NE(what[1].find("rank 1 expects broadcast of 14 fp64"), std::string::npos) << info.name << ": " << what[1];
  }
}

}  // namespace
}  // namespace ripieno
