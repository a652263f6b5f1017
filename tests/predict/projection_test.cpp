#include "ripieno/predict/projection.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ripieno/codec/codec.h"
#include "ripieno/core/side_by_side.h"
#include "ripieno/predict/costs.h"
#include "ripieno/predict/shrink.h"
#include "ripieno/strategy/refusals.h"

namespace ripieno::predict {
namespace {

/// Of two matrices and their vectors in three buckets, the last tensors first.
strategy::Layout layout_of(std::size_t side, bool divided = true) {
  strategy::Layout layout;
  std::size_t end = 0;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    std::size_t count = 1;
    for (const std::int64_t n : shape) count *= static_cast<std::size_t>(n);
    layout.tensors.push_back({name, shape, {end, end + count}});
    end += count;
  };
  const auto n = static_cast<std::int64_t>(side);
  add("a", {n, n});
  add("a.bias", {n});
  add("b", {2 * n, n});
  add("b.bias", {2 * n});
  layout.parameters = end;
  layout.buffers = 10;
  const auto& t = layout.tensors;
  if (!divided) {
    layout.buckets = {{t[2].range.begin, end}, {0, t[2].range.begin}};
    return layout;
  }
  layout.buckets = {
      {t[2].range.begin + side * side, end}, {t[2].range.begin, t[2].range.begin + side * side}, {0, t[2].range.begin}};
  return layout;
}

strategy::ComputeProfile profile_of(double pass_s, std::size_t buckets, std::uint32_t images) {
  strategy::ComputeProfile profile{images, Duration(0), from_seconds(pass_s / 3), from_seconds(pass_s * 2 / 3), {}};
  for (std::size_t i = 0; i < buckets; ++i)
    profile.ready.push_back(from_seconds(pass_s * 2 / 3 * static_cast<double>(i + 1) / static_cast<double>(buckets)));
  return profile;
}

/// `steps` of 8 images by each worker, 30 ms each, on links of 100 Mb/s and 1 ms.
ProjectedJob job_of(const char* strategy, const char* codec, int workers, std::uint32_t steps, std::size_t side = 256) {
  const bool by_matrices = codec == std::string_view("powersgd");
  ProjectedJob job;
  job.info = &strategy::find_strategy(strategy);
  job.plan.exchange.codec.name = codec;
  job.workers = workers;
  job.layout = layout_of(side, !by_matrices);
  job.profile = profile_of(0.03, job.layout.buckets.size(), 8);
  job.steps.assign(static_cast<std::size_t>(workers), steps);
  job.images.assign(static_cast<std::size_t>(workers), 8);
  job.samples.assign(static_cast<std::size_t>(workers), 8 * steps);
  job.link = {from_seconds(1e-3), from_seconds(8e-8)};
  return job;
}

TEST(Projection, ALoneWorkerTakesItsPasses) {
  ProjectedJob job = job_of("single", "auto", 1, 100);
  job.optimise = from_seconds(0.001);
  const Projection found = project(job);
  EXPECT_NEAR(found.epoch_s, 100 * 0.031, 1e-6);
  EXPECT_NEAR(found.step_s, 0.031, 1e-8);
  EXPECT_EQ(found.exchange_s, 0);
  EXPECT_EQ(found.bytes, 0);
  job.samples = {8 * 99 + 4};  // the last batch is half of one
  EXPECT_NEAR(project(job).epoch_s, 100 * 0.031 - 0.015, 1e-6);
}

TEST(Projection, ARingTakesWhatItsBytesTake) {
  const ProjectedJob job = job_of("ring", "auto", 4, 50, 1024);  // 3 million numbers: shrunk some hundred times
  const Projection found = project(job);
  const double bytes = 4.0 * static_cast<double>(job.layout.parameters) * 2 * 3 / 4;
  EXPECT_NEAR(found.bytes, bytes * 50, bytes * 0.01);
  const double exchange = bytes * 8e-8 + 3 * 6 * 1e-3;  // three buckets, six rounds each
  EXPECT_NEAR(found.exchange_s, 50 * exchange, 50 * exchange * 0.01);
  EXPECT_NEAR(found.epoch_s, 50 * (0.03 + exchange), 50 * exchange * 0.01);
}

/// 61 steps: of which some are run, and the others follow on the line.
TEST(Projection, ExchangesAnEpochAreThoseOfItsSteps) {
  const double pass = 0.03, exchange = 4 * static_cast<double>(layout_of(256).parameters) * 4 / 3 * 8e-8;
  const auto exchanges = [&](const char* strategy) {
    ProjectedJob job = job_of(strategy, "auto", 3, 61);
    job.link.latency = Duration(0);
    job.plan.passes = 4;
    job.plan.local.steps = 5;
    return (project(job).epoch_s - 61 * pass) / exchange;
  };
  EXPECT_NEAR(exchanges("ring"), 61, 0.1);
  EXPECT_NEAR(exchanges("accumulate"), 16, 0.1);  // the last of one batch
  EXPECT_NEAR(exchanges("local-sgd"), 12, 0.1);
  EXPECT_NEAR(exchanges("fedavg"), 3, 0.1);  // down to two clients, then up: 4 models on one card, where a ring has 4/3
  EXPECT_LT(exchanges("ddp"), 61);
}

TEST(Projection, LocalStepsGoOnFromOneEpochToTheNext) {
  const double pass = 0.03, exchange = 4 * static_cast<double>(layout_of(256).parameters) * 4 / 3 * 8e-8;
  const auto expect = [&](double exchanges, std::uint32_t steps, std::uint32_t local_steps, std::uint32_t epochs) {
    ProjectedJob job = job_of("local-sgd", "auto", 3, steps);
    job.link.latency = Duration(0);
    job.plan.local.steps = local_steps;
    job.plan.epochs = epochs;
    const Projection found = project(job);
    EXPECT_NEAR((found.epoch_s - steps * pass) / exchange, exchanges, 0.1) << steps << " " << local_steps;
    EXPECT_NEAR(found.bytes, exchanges * 4 * static_cast<double>(job.layout.parameters) * 4 / 3, 1000 * exchanges);
    EXPECT_NEAR(found.exchange_s / exchange, exchanges, 0.1) << steps << " " << local_steps;
  };
  expect(0.5, 4, 8, 6);     // three exchanges in six epochs
  expect(0, 4, 8, 1);       // none
  expect(3.75, 79, 20, 4);  // fifteen in four
  expect(0, 50, 1000000, 2);
  expect(0.5, 600, 1200, 10);
  expect(1.5, 12, 8, 40);  // of two epochs, one has two
}

TEST(Projection, AnExchangeUnderWayLandsAtAnEpochsEnd) {
  const auto exposed = [](std::uint32_t steps, std::uint32_t delay, std::uint32_t fragments) {
    ProjectedJob job = job_of("local-sgd", "auto", 3, steps);
    job.plan.local = {8, fragments, delay};
    job.plan.epochs = 10;
    return project(job).exchange_s;
  };
  EXPECT_NEAR(exposed(8, 4, 1), exposed(8, 0, 1), 1e-3);  // each begins with the epoch's last step
  EXPECT_LT(exposed(64, 4, 1), 0.2 * exposed(64, 0, 1));
  EXPECT_GT(exposed(64, 4, 1), 0.9 * exposed(8, 0, 1));
  EXPECT_NEAR(exposed(4, 0, 2), 0.5 * exposed(8, 0, 2), 0.1 * exposed(8, 0, 2));
}

TEST(Projection, EveryStrategyWithEveryCodec) {
  int projected = 0;
  for (const strategy::StrategyInfo& info : strategy::strategies()) {
    for (const codec::CodecInfo& codec : codec::codecs()) {
      const bool single = info.name == "single";
      ProjectedJob job = job_of(std::string(info.name).c_str(), std::string(codec.name).c_str(), single ? 1 : 4, 40);
      const auto is_refused = [&] {
        try {
          strategy::refuse({info, job.plan, job.workers});
          return false;
        } catch (const Error&) {
          return true;
        }
      };
      if (is_refused()) job.plan.federated.deltas = true;
      if (is_refused()) continue;
      const Projection found = project(job);
      EXPECT_GE(found.epoch_s, 40 * 0.03 - 1e-9) << info.name << " " << codec.name;
      EXPECT_LT(found.epoch_s, 40 * 0.03 + 40 * 1.5) << info.name << " " << codec.name;
      EXPECT_LE(found.exchange_s, found.epoch_s) << info.name << " " << codec.name;
      EXPECT_EQ(found.bytes > 0, !single) << info.name << " " << codec.name;
      ++projected;
    }
  }
  EXPECT_GT(projected, 150);
}

/// As the program projects them, on all cores.
TEST(Projection, IsTheSameForSeveralAtOnce) {
  std::vector<ProjectedJob> jobs;
  for (const char* strategy : {"ring", "ddp", "local-sgd", "fedavg", "ps-async", "gossip-pairs"}) {
    for (const char* codec : {"fp32", "topk"}) {
      if (strategy == std::string_view("gossip-pairs") && codec == std::string_view("topk")) continue;
      ProjectedJob& job = jobs.emplace_back(job_of(strategy, codec, 4, 40, 64));
      job.plan.federated.deltas = true;
      job.spread = 0.3;
    }
  }
  std::vector<double> found(jobs.size());
  side_by_side(jobs.size(), [&](std::size_t i) { found[i] = project(jobs[i]).epoch_s; });
  for (std::size_t i = 0; i < jobs.size(); ++i) EXPECT_EQ(found[i], project(jobs[i]).epoch_s) << jobs[i].info->name;
}

/// Of P exponential times the greatest is 1 + 1/2 + .. + 1/P on average. Who meets after every step waits for it; who
/// meets once an epoch does not, for all are as fast in the long run.
TEST(Projection, WhoMeetsInEveryStepWaitsForTheSlowest) {
  const auto step = [](const char* strategy, double spread) {
    ProjectedJob job = job_of(strategy, "auto", 4, 800);
    job.plan.local.steps = 64;  // of which the mean is taken over many
    job.spread = spread;
    return project(job).step_s;
  };
  const double slowest = 0.3 * (1.0 / 2 + 1.0 / 3 + 1.0 / 4) * 0.03;
  EXPECT_NEAR(step("ring", 0.3) - step("ring", 0), slowest, 0.4 * slowest);
  EXPECT_NEAR(step("fedavg", 0.3), step("fedavg", 0), 0.1 * slowest);
  EXPECT_LT(step("local-sgd", 0.3) - step("local-sgd", 0), 0.3 * slowest);
}

/// However few steps are run for so many.
TEST(Projection, TheSlowestOfManyIsAsSlowAsOfSoMany) {
  const auto waiting = [](const char* strategy, int workers) {
    const auto step = [&](double spread) {
      ProjectedJob job = job_of(strategy, "auto", workers, 100, 64);
      job.plan.exchange.route = "halving-doubling";
      job.plan.local.steps = 8;
      job.spread = spread;
      return project(job).step_s;
    };
    return step(0.3) - step(0);
  };
  for (const int workers : {64, 512}) {
    double slowest = 0;
    for (int i = 2; i <= workers; ++i) slowest += 0.3 * 0.03 / i;
    EXPECT_NEAR(waiting("halving-doubling", workers), slowest, 0.15 * slowest) << workers;
  }
  // Of 64 sums of eight exponential times the greatest is 16.1 on average, of 512 it is 19.5, by drawing them.
  EXPECT_NEAR(waiting("local-sgd", 64), 0.3 * 0.03 * (16.1 - 8) / 8, 0.2 * 0.3 * 0.03);
  EXPECT_NEAR(waiting("local-sgd", 512), 0.3 * 0.03 * (19.5 - 8) / 8, 0.2 * 0.3 * 0.03);
}

TEST(Projection, AServersLinkCarriesBothDirectionsAtOnce) {
  // A lone worker's step: its pass, a push, a pull and two delays. Two workers find the link free; of more, the pushes
  // take the server's link one after the other, while pulls take it the other way.
  for (const double delay_s : {1e-3, 20e-3}) {
    const auto step = [&](const char* strategy, int workers) {
      ProjectedJob job = job_of(strategy, "fp32", workers, 100, 512);
      job.link.latency = from_seconds(delay_s);
      job.window_bytes = 64 << 20;
      job.framing_bytes = 48;
      job.spread = 0.06;
      return project(job).step_s;
    };
    const double push = 4 * 8e-8 * static_cast<double>(layout_of(512, true).parameters);
    const double alone = 0.03 + 2 * push + 2 * delay_s;
    for (const char* strategy : {"ps-async", "ps-ssp"}) {
      const std::string where = text(strategy, " ", delay_s);
      EXPECT_NEAR(step(strategy, 2) / alone, 1, 0.1) << where;
      for (const int workers : {4, 8}) {
        EXPECT_GE(step(strategy, workers), 0.99 * workers * push) << where;
        EXPECT_LE(step(strategy, workers), 1.1 * workers * push) << where;
      }
    }
  }
}

TEST(Projection, CodingIsCharged) {
  ProjectedJob job = job_of("ring", "topk", 2, 40);
  const Projection free = project(job);
  job.plan.exchange.codec.number_s = 1e-8;
  const double coding = 1e-8 * static_cast<double>(job.layout.parameters);
  EXPECT_NEAR(project(job).step_s - free.step_s, coding, coding * 0.01);
  job = job_of("ps-sync", "int8", 2, 40);
  const Projection push = project(job);
  job.plan.exchange.codec.number_s = 1e-8;
  EXPECT_NEAR(project(job).step_s - push.step_s, coding, coding * 0.01);
}

TEST(Projection, AShrunkModelTakesAsLong) {
  for (const char* codec : {"auto", "fp16", "int8", "sign", "topk", "powersgd"}) {
    ProjectedJob small = job_of("ddp", codec, 4, 30, 104),
                 large = job_of("ddp", codec, 4, 30, 1040);  // 32 thousand numbers, and a hundred times that
    const Projection a = project(small), b = project(large);
    EXPECT_NEAR(b.bytes / a.bytes, codec == std::string_view("powersgd") ? 10 : 100,
                codec == std::string_view("powersgd") ? 0.5 : 3)
        << codec;
    large.link.per_byte = from_seconds(seconds(large.link.per_byte) * a.bytes / b.bytes);
    EXPECT_NEAR(project(large).epoch_s / a.epoch_s, 1, 0.02) << codec;
  }
}

TEST(Shrink, KeepsTheCut) {
  const strategy::Layout large = layout_of(512);
  for (const char* codec : {"auto", "powersgd"}) {
    const strategy::Layout small = shrunk(large, 20, codec::CodecOptions{codec});
    EXPECT_EQ(small.tensors.size(), large.tensors.size());
    std::size_t end = small.parameters;
    for (const Range bucket : small.buckets) {  // still a partition, from the end
      EXPECT_EQ(bucket.end, end);
      EXPECT_LT(bucket.begin, bucket.end);
      end = bucket.begin;
    }
    EXPECT_EQ(end, 0u);
  }
  EXPECT_NEAR(
      static_cast<double>(large.parameters) / static_cast<double>(shrunk(large, 20, codec::CodecOptions{}).parameters),
      20, 0.1);
  EXPECT_EQ(shrunk(codec::CodecOptions{"int8"}, 4.0).block, 64u);
  EXPECT_EQ(shrunk(codec::CodecOptions{"int8"}, 1e6).block, 8u);
}

TEST(Shrink, ABucketIsReadyOnceAllThatLiesInItIs) {
  const std::vector<Range> measured{{60, 100}, {30, 60}, {0, 30}};
  const std::vector<Duration> ready{Duration(1), Duration(5), Duration(9)};
  EXPECT_EQ(ready_in({{30, 100}, {0, 30}}, measured, ready), (std::vector<Duration>{Duration(5), Duration(9)}));
  EXPECT_EQ(ready_in({{0, 100}}, measured, ready), (std::vector<Duration>{Duration(9)}));
}

TEST(Costs, AreMeasuredForEveryCodecAndOptimiser) {
  const strategy::Layout layout = layout_of(64);
  for (const codec::CodecInfo& codec : codec::codecs()) {
    const double cost = coding_cost(codec::CodecOptions{std::string(codec.name)}, layout);
    EXPECT_GT(cost, 0) << codec.name;
    EXPECT_LT(cost, 1e-4) << codec.name;
  }
  EXPECT_GT(optimiser_cost({.name = "adam"}, 10000, DType::fp32), Duration(0));
}

}  // namespace
}  // namespace ripieno::predict
