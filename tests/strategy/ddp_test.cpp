#include <gtest/gtest.h>

#include "ripieno/numeric/elementwise.h"
#include "tests/support/job.h"
#include "tests/support/sanitized.h"

namespace ripieno::strategy {
namespace {

using testing::distance;
using testing::Job;
using testing::LinearOptions;
using testing::sgd;
using testing::single;

/// Eight buckets of 512 numbers, 4,096 bytes each, and passes of 1.2 ms, a third of it forward.
testing::LinearOptions large() {
  return {.samples = 64, .features = 4096, .bucket_elements = 512, .sample_cost = Duration(300'000'000)};
}

/// On which a bucket takes 6 * (5 + 16) us around four workers, all eight about 1 ms: less than a pass.
transport::SimulatedOptions thin() { return {.link = {Duration(5'000'000), Duration(16'000)}}; }
/// Four times as long: more than a pass.
transport::SimulatedOptions thinner() { return {.link = {Duration(5'000'000), Duration(64'000)}}; }

struct Timed {
  std::vector<std::vector<observe::Span>> spans;  // of exchanges, by rank
  Duration took{0}, exposed{0}, hidden{0};
  std::vector<double> weights;
};

Timed run(std::string_view strategy, Plan plan, transport::SimulatedOptions network = thin(), int workers = 4) {
  Job job(strategy, workers, plan, large(), 16, network);
  job.make();
  Timed timed;
  timed.spans.resize(workers);
  for (int rank = 0; rank < workers; ++rank) {
    job.recorders[rank]->on_span = [&timed, rank](const observe::Span& span) {
      if (span.what == std::string_view("exchange")) timed.spans[rank].push_back(span);
    };
  }
  job.run();
  timed.took = job.took;
  timed.exposed = job.recorders[0]->totals()[observe::Stage::exchange];
  timed.hidden = job.recorders[0]->totals()[observe::Stage::hidden];
  timed.weights = job.weights();
  return timed;
}

Plan forward(Plan plan) {
  plan.exchange.forward = true;
  return plan;
}

TEST(Ddp, TakesTheSameStepsWithAndWithoutOverlap) {
  const Timed after = run("ring", sgd(2)), backward = run("ddp", sgd(2)), next = run("ddp", forward(sgd(2)));
  EXPECT_EQ(backward.weights, after.weights);
  EXPECT_EQ(next.weights, after.weights);
}

TEST(Ddp, HidesTheExchangeUnderTheBackwardPass) {
  const Timed after = run("ring", sgd(2)), backward = run("ddp", sgd(2));
  EXPECT_LT(backward.took, after.took);
  EXPECT_GT(backward.hidden, 2 * backward.exposed);
  EXPECT_EQ(after.hidden, Duration{0});
}

TEST(Ddp, HidesTheExchangeUnderTheNextForwardPassToo) {
  // Where the wire is the limit: buckets wait for it when the backward pass has ended. Where it is not, there is
  // nothing to gain: the bucket that is needed first is the one that is ready last.
  const Timed backward = run("ddp", sgd(2), thinner()), next = run("ddp", forward(sgd(2)), thinner());
  EXPECT_LT(next.took, backward.took);
  EXPECT_LT(next.exposed, backward.exposed);
  EXPECT_LE(run("ddp", forward(sgd(2)), thin()).took, run("ddp", sgd(2), thin()).took);
}

TEST(Ddp, HasSeveralBucketsInTheAirAtOnceAndNoMoreThanAllowed) {
  for (const int allowed : {1, 2, 4}) {
    Plan plan = sgd(1);
    plan.exchange.in_flight = allowed;
    const Timed timed = run("ddp", plan);
    int most = 0;
    for (const observe::Span& a : timed.spans[0]) {
      int at_once = 0;
      for (const observe::Span& b : timed.spans[0]) at_once += b.begin <= a.begin && a.begin < b.end;
      most = std::max(most, at_once);
    }
    EXPECT_LE(most, allowed);
    EXPECT_GE(most, std::min(allowed, 2));
  }
}

TEST(Ddp, BucketsAreOnTheWireDuringTheNextForwardPass) {
  // In a step every bucket's span begins during the backward pass or after it. With `forward`, spans of one step reach
  // into the next: the last layers' buckets of step k+1 become ready after spans of step k have ended in its forward
  // pass.
  const Timed timed = run("ddp", forward(sgd(2)), thinner());
  const std::size_t buckets = 8, steps = timed.spans[0].size() / buckets;
  ASSERT_EQ(steps, 8u);
  const Duration pass = 4 * Duration(300'000'000);  // four samples a worker
  std::vector<Duration> first_ready(steps, Duration::max());
  std::vector<std::size_t> seen(buckets);
  std::vector<std::vector<observe::Span>> by_step(steps);
  for (const observe::Span& span : timed.spans[0]) by_step[seen[span.index]++].push_back(span);
  for (std::size_t k = 0; k < steps; ++k) {
    for (const observe::Span& span : by_step[k]) first_ready[k] = std::min(first_ready[k], span.begin);
  }
  int under_forward = 0;
  for (std::size_t k = 0; k + 1 < steps; ++k) {
    if (k % 4 == 3) continue;  // an epoch's end waits for all
    const Duration forward_begins = first_ready[k + 1] - pass / 3 - pass * 2 / 3 / 8;
    for (const observe::Span& span : by_step[k])
      under_forward += span.end > forward_begins && span.end <= first_ready[k + 1];
  }
  EXPECT_GE(under_forward, 6);
}

TEST(Ddp, StartsBucketsInTheOrderOfRankZero) {
  const Timed timed = run("ddp", sgd(1));
  for (const auto& spans : timed.spans) {
    for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_GE(spans[i].end, spans[i - 1].begin);
  }
  for (int rank = 1; rank < 4; ++rank) {
    for (std::size_t i = 0; i < timed.spans[0].size(); ++i)
      EXPECT_EQ(timed.spans[rank][i].index, timed.spans[0][i].index);
  }
}

TEST(Ddp, ForwardIsExactOnEveryRouteWithUnevenWorkers) {
  for (const char* route :
       {"ring", "halving-doubling", "direct", "double-binary-tree", "gather-scatter", "reduce-broadcast"}) {
    for (const int workers : {2, 3, 4, 7}) {
      Plan plan = forward(sgd(3));
      plan.exchange.route = route;
      Job job("ddp", workers, plan, {.sample_cost = Duration(1'000'000)});
      for (auto& options : job.options) {
        options.sampler.shares.assign(workers, 1);
        options.sampler.shares[1] = 3;
      }
      job.run();
      EXPECT_LE(testing::distance(job.weights(), single(sgd(3))), 1e-11) << route << " P=" << workers;
    }
  }
}

TEST(Ddp, AnErrorInFlightEndsTheRunAndLeavesNobodyAtAGate) {
  const testing::MayLeaveWaiting waiting;
  for (const bool overlap : {false, true}) {
    Plan plan = sgd(4);
    plan.exchange.forward = overlap;
    Job job("ddp", 4, plan, large(), 16, thin());
    job.make();
    job.cluster.kill_at(Duration(3'100'000'000), 2);
    try {
      job.cluster.run_mortal([&](collective::Communicator comm) { return job.strategies[comm.rank()]->run(); });
      FAIL() << "a lost rank went unnoticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::peer) << error.what();
      EXPECT_NE(std::string(error.what()).find("lost rank 2"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace ripieno::strategy
