#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/strategy/placements.h"
#include "tests/support/job.h"
#include "tests/support/sanitized.h"

namespace ripieno::strategy {
namespace {

using testing::describe;
using testing::distance;
using testing::Job;
using testing::LinearOptions;
using testing::ms;
using testing::placements;
using testing::sgd;

TEST(PsAsync, AWorkerThatStallsForEverStopsNobody) {
  for (const ServerOptions& servers : placements(4, 2)) {
    Plan plan = sgd(8, 0.05, 0);
    plan.servers = servers;
    const auto run = [&](double slow) {
      auto job = std::make_unique<Job>("ps-async", 4, plan, testing::LinearOptions{.samples = 400}, 40);
      for (int rank = 0; rank < job->cluster.size(); ++rank) {
        const Duration cost = ms(10) * static_cast<std::int64_t>(job->info.worker(plan, rank) == 3 ? slow : 1);
        job->options[rank].cost = [cost](data::BatchId) { return cost; };
      }
      job->make();
      return job;
    };
    const auto even = run(1), uneven = run(1e6);
    even->run();
    std::vector<Duration> evaluated;
    uneven->recorders[0]->on_epoch = [&](const observe::EpochRecord& record) {
      if (!std::isnan(record.accuracy)) evaluated.push_back(uneven->cluster.runtime().now());
    };
    uneven->run();
    const auto trained = [](const Job& job, int rank) {
      Duration sum{0};
      for (const Duration d : job.recorders[rank]->epoch_times()) sum += d;
      return seconds(sum);
    };
    const int first = uneven->info.servers(plan);
    for (int worker = first == 0 ? 1 : 0; worker < 3; ++worker) {  // beside a shard, rank 0 records the job's epochs
      EXPECT_NEAR(trained(*uneven, first + worker) / trained(*even, first + worker), 1.0, 0.01) << describe(servers);
    }
    // Three of four workers' samples make six of eight epochs' worth; the rest needs the stalled one.
    ASSERT_EQ(evaluated.size(), 8u) << describe(servers);
    EXPECT_LT(seconds(evaluated[5]), 1.0);  // virtual: 80 steps of 10 ms are 0.8 s
    EXPECT_GT(seconds(evaluated[6]), 1000.0);
  }
}

TEST(PsAsync, CountsTheAgeOfEveryGradient) {
  const Plan plan = sgd(4, 0.05, 0);
  Job job("ps-async", 4, plan, {.samples = 400}, 16);
  for (int rank = 1; rank < 5; ++rank) {
    const Duration cost = ms(rank == 4 ? 40 : 10);
    job.options[rank].cost = [cost](data::BatchId) { return cost; };
  }
  job.run();
  std::map<std::int64_t, std::uint64_t> sum;
  for (int rank = 1; rank < 5; ++rank) {
    for (const auto& [age, count] : job.recorders[rank]->ages()) sum[age] += count;
  }
  EXPECT_EQ(job.recorders[0]->ages(), sum);
  std::uint64_t gradients = 0;
  for (const auto& [age, count] : sum) gradients += count;
  EXPECT_EQ(gradients, 4u * 4 * 25);
  EXPECT_GE(job.recorders[4]->ages().rbegin()->first, 9);  // three others moved on by four steps
  EXPECT_LE(job.recorders[4]->ages().rbegin()->first, 13);
  EXPECT_EQ(job.recorders[1]->ages().begin()->first, 0);
}

TEST(ParameterServers, WeightUnevenBatchesBySamples) {
  // At a rate that hardly moves the weights, an epoch's updates add up to as many steps with the mean over all samples.
  for (const char* name : {"ps-async", "ps-ssp"}) {
    const double rate = 1e-9;
    Job job(name, 3, sgd(1, rate, 0), {.samples = 103}, 24);
    for (testing::LinearOptions& options : job.options) options.sampler.shares = {1, 2, 5};
    job.run();
    const auto& learner = *job.learners.back();
    double pushes = 0;
    for (const std::uint32_t steps : learner.sampler().steps_of_all()) pushes += steps;
    std::vector<double> expected(13, 0.0), start(13, 0.0);
    for (std::uint32_t i = 0; i < 103; ++i) {
      const auto [x, y] = learner.sample(i);
      for (std::size_t j = 0; j < x.size(); ++j) expected[j] += rate * pushes * y * x[j] / 103;
    }
    EXPECT_LE(testing::distance(job.weights(), expected) / testing::distance(expected, start), 1e-6) << name;
  }
}

/// What asynchronous updates should come to, computed plainly: one after the other, in the order in which passes end.
std::vector<double> reference(Job& job, std::span<const int> pass_times, int staleness) {
  const int workers = job.workers, first = job.info.servers(job.plan);
  struct Worker {
    std::vector<double> weights;
    int clock = 0, ends = 0;
    bool waits = false;
  };
  std::vector<double> weights(13, 0.0), momentum(13, 0.0);
  std::vector<Worker> all(workers, Worker{weights});
  for (int w = 0; w < workers; ++w) all[w].ends = pass_times[w];
  const int steps = static_cast<int>(job.learners[first]->sampler().steps());
  double samples = 0;
  for (const std::uint32_t n : job.learners[first]->sampler().samples_of_all()) samples += n;
  for (int now = 0, left = workers * steps; left > 0; ++now) {
    for (int w = 0; w < workers; ++w) {
      if (all[w].waits || all[w].clock == steps || all[w].ends != now) continue;
      std::vector<double> gradient(13, 0.0);
      testing::LinearLearner& learner = *job.learners[first + w];
      data::Sampler sampler = learner.sampler();
      for (const std::uint32_t i : sampler.batch(0, static_cast<std::uint32_t>(all[w].clock)).indices) {
        const auto [x, y] = learner.sample(i);
        double error = -y;
        for (int j = 0; j < 13; ++j) error += all[w].weights[j] * x[j];
        for (int j = 0; j < 13; ++j) gradient[j] += error * x[j] / (samples / (workers * steps));
      }
      for (int j = 0; j < 13; ++j) {
        momentum[j] = 0.9 * momentum[j] + gradient[j];
        weights[j] -= 0.02 * momentum[j];
      }
      ++all[w].clock, --left;
      all[w].waits = true;
      for (Worker& one : all) {
        int slowest = steps;
        for (const Worker& other : all) slowest = other.clock < steps ? std::min(slowest, other.clock) : slowest;
        if (!one.waits || one.clock - slowest > staleness) continue;
        one.waits = false;
        one.weights = weights;
        one.ends = now + pass_times[&one - all.data()];
      }
    }
  }
  return weights;
}

TEST(ParameterServers, ApplyUpdatesInTheOrderOfArrival) {
  constexpr std::array pass_times{1009, 2003, 3511};  // no two passes end within the same millisecond
  for (const auto& [name, staleness] : {std::pair("ps-async", 1000), std::pair("ps-ssp", 0), std::pair("ps-ssp", 2)}) {
    for (const ServerOptions& servers : placements(3)) {
      Plan plan = sgd(1, 0.02);
      plan.servers = servers;
      plan.servers.staleness = staleness;
      Job job(name, 3, plan, {.samples = 96}, 9);
      for (int rank = 0; rank < job.cluster.size(); ++rank) {
        const int worker = job.info.worker(plan, rank);
        const Duration cost = ms(worker < 0 ? 0 : pass_times[worker]);
        job.options[rank].cost = [cost](data::BatchId) { return cost; };
      }
      job.run();
      const std::vector<double> expected = reference(job, pass_times, staleness), start(13, 0.0);
      EXPECT_LE(testing::distance(job.weights(), expected) / testing::distance(expected, start), 1e-12)
          << name << " " << staleness << ", " << describe(servers);
    }
  }
}

/// Ages of the gradients in a random timing.
struct Timing {
  std::int64_t oldest = 0;
  std::uint64_t gradients = 0;
};

Timing run_with_random_times(const char* name, int staleness, std::uint64_t seed) {
  Random random(seed);
  const int workers = 2 + static_cast<int>(random.below(3));
  Plan plan = sgd(1, 0.05, 0);
  plan.servers.staleness = staleness;
  plan.servers.count = 1 + static_cast<int>(random.below(2));
  plan.servers.beside = random.below(2) == 1;
  const auto batch = static_cast<std::uint32_t>(workers);
  Job job(name, workers, plan, {.samples = 10 * batch, .features = 3}, batch);
  for (int rank = 0; rank < job.cluster.size(); ++rank) {
    const double typical = random.uniform(1, 10);
    std::vector<Duration> times;
    for (int step = 0; step < 10; ++step) times.push_back(ms(typical * random.uniform(0.1, 3)));
    job.options[rank].cost = [times](data::BatchId batch) { return times.at(batch.step); };
  }
  Timing timing;
  job.on_step = [&](int, const observe::StepRecord& record) {
    timing.oldest = std::max(timing.oldest, record.age.value());
    ++timing.gradients;
  };
  job.run();
  const auto all = static_cast<std::uint64_t>(workers) * 10;
  EXPECT_EQ(timing.gradients, plan.servers.beside ? all : 2 * all);  // a server of its own records them too
  return timing;
}

TEST(PsSsp, NoGradientIsOlderThanTheBoundInAThousandTimings) {
  constexpr int unbounded = 1000;
  constexpr int timings = testing::sanitized ? 50 : 1000;
  std::array<int, 6> at_the_bound{}, beyond_it_without{};
  for (std::uint64_t seed = 0; seed < timings; ++seed) {
    const std::int64_t oldest = run_with_random_times("ps-ssp", unbounded, seed).oldest;
    for (int s = 0; s <= 5; ++s) {
      const Timing timing = run_with_random_times("ps-ssp", s, seed);
      ASSERT_LE(timing.oldest, s) << "seed " << seed;
      at_the_bound[s] += timing.oldest == s;
      beyond_it_without[s] += oldest > s;
    }
  }
  for (int s = 0; s <= 5; ++s) {
    EXPECT_GT(at_the_bound[s], timings / 10) << "s = " << s;
    EXPECT_GT(beyond_it_without[s], timings / 10) << "s = " << s;
  }
}

TEST(PsSsp, TheFastWaitForTheSlowOnly) {
  const auto took = [](const char* name, int staleness) {
    Plan plan = sgd(1, 0.05, 0);
    plan.servers.staleness = staleness;
    Job job(name, 3, plan, {.samples = 60}, 6);
    for (int rank = 0; rank < job.cluster.size(); ++rank) {
      const Duration cost = ms(rank == 3 ? 40 : 10);
      job.options[rank].cost = [cost](data::BatchId) { return cost; };
    }
    job.run();
    return seconds(job.recorders[1]->epoch_times().at(0));
  };
  // 10 steps: in lock-step 40 ms each; with bound s the last answer that matters comes at the slow one's 9 - s-th step.
  const double free = took("ps-async", 0);
  EXPECT_NEAR(free, 0.1, 0.005);
  double before = took("ps-ssp", 0);
  EXPECT_NEAR(before, 9 * 0.04 + 0.01, 0.01);
  for (int s = 1; s <= 6; ++s) {
    const double now = took("ps-ssp", s);
    EXPECT_NEAR(before - now, 0.04, 0.005) << "s = " << s;
    before = now;
  }
  EXPECT_NEAR(took("ps-ssp", 9), free, 0.005);
}

}  // namespace
}  // namespace ripieno::strategy
