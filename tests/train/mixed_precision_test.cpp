// Mixed precision: the half that computes and the half that is on the wire, each alone and both; overflows and the loss
// scale.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "ripieno/numeric/elementwise.h"
#include "tests/train/small_net.h"

namespace ripieno::train {
namespace {

using testing::TorchJob;

strategy::Plan steps(std::uint64_t count) {
  strategy::Plan plan;
  plan.epochs = 3;
  plan.max_steps = count;
  plan.optimiser.momentum = 0.9;
  plan.learning_rate.base = 0.02;
  return plan;
}

TorchOptions computing_in(Precision precision) {
  TorchOptions options;
  options.precision = precision;
  options.flat.bucket_bytes = 2000;
  return options;
}

std::vector<double> in_fp64(NumberSpan span) {
  const auto values = span.as<float>();
  return {values.begin(), values.end()};
}

double distance_in_fp64(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}

TEST(MixedPrecision, EachHalfIsToBeHadAlone) {
  struct Outcome {
    std::vector<double> weights;
    std::uint64_t bytes = 0;
  };
  std::vector<double> start;
  const auto run = [&](Precision compute, const char* wire) {
    strategy::Plan plan = steps(20);
    plan.exchange.codec.name = wire;
    TorchJob job("ring", 3, plan, computing_in(compute));
    start = in_fp64(job.learners[0]->parameters());
    job.run();
    Outcome outcome{in_fp64(job.weights()), 0};
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(job.learners[rank]->parameters().type, DType::fp32) << "master weights";
      EXPECT_EQ(in_fp64(job.learners[rank]->parameters()), outcome.weights) << "rank " << rank;
      outcome.bytes += job.cluster.ledger(rank).total(observe::Purpose::exchange).payload_sent;
    }
    return outcome;
  };
  const Outcome exact = run(Precision::fp32, "auto");
  const double way = distance_in_fp64(exact.weights, start);
  std::map<std::vector<double>, std::string> seen{{exact.weights, "fp32 auto"}};
  for (const Precision compute : {Precision::fp32, Precision::fp16, Precision::bf16}) {
    for (const char* wire : {"fp32", "fp16", "bf16"}) {
      if (compute == Precision::fp32 && wire == std::string_view("fp32")) continue;
      const std::string here = text("compute ", static_cast<int>(compute), ", wire ", wire);
      const Outcome outcome = run(compute, wire);
      EXPECT_EQ(outcome.bytes, wire == std::string_view("fp32") ? exact.bytes : exact.bytes / 2) << here;
      const bool coarse = compute == Precision::bf16 || wire == std::string_view("bf16");
      EXPECT_LT(distance_in_fp64(outcome.weights, exact.weights) / way, coarse ? 0.1 : 0.02) << here;
      const auto [same, is_new] = seen.emplace(outcome.weights, here);
      EXPECT_TRUE(is_new) << here << " is the same as " << same->second << ": one of them does not round";
    }
  }
}

/// The gradient of one pass overflows.
class Overflowing final : public strategy::Learner {
 public:
  Overflowing(TorchLearner& inner, std::uint32_t step) : inner_(inner), step_(step) {}
  const strategy::Layout& layout() const override { return inner_.layout(); }
  NumberSpan parameters() override { return inner_.parameters(); }
  NumberSpan gradients() override { return inner_.gradients(); }
  NumberSpan buffers() override { return inner_.buffers(); }
  std::uint32_t steps_per_epoch() const override { return inner_.steps_per_epoch(); }
  std::uint32_t samples_per_epoch() const override { return inner_.samples_per_epoch(); }
  Task<strategy::Evaluation> evaluate(int part, int parts) override { return inner_.evaluate(part, parts); }
  Gates& gates() override { return inner_.gates(); }
  void commit() override { inner_.commit(); }
  void drop() override { inner_.drop(); }
  optim::LossScale* loss_scale() override { return inner_.loss_scale(); }
  Task<std::unique_ptr<strategy::Pass>> begin(data::BatchId batch, strategy::Weighting weighting) override {
    auto pass = co_await inner_.begin(batch, std::move(weighting));
    if (batch.step != step_) co_return pass;
    while (co_await pass->next_bucket()) {
    }
    const strategy::PassResult result = co_await pass->finish();
    inner_.gradients().as<float>()[3] = std::numeric_limits<float>::infinity();
    co_return std::make_unique<Done>(inner_.layout().buckets.size(), result);
  }

 private:
  struct Done final : strategy::Pass {
    Done(std::size_t buckets, strategy::PassResult result) : buckets(buckets), result(result) {}
    Task<std::optional<std::size_t>> next_bucket() override {
      if (next == buckets) co_return std::nullopt;
      co_return next++;
    }
    strategy::BatchSize size() const override { return result; }
    Task<strategy::PassResult> finish() override { co_return result; }
    std::size_t buckets, next = 0;
    strategy::PassResult result;
  };
  TorchLearner& inner_;
  std::uint32_t step_;
};

struct Seen {
  std::uint64_t weights;
  double scale;
};

/// What each worker has after each of its steps, where the last rank's gradient overflows in step 2. [rank][step]
std::map<int, std::vector<Seen>> overflow_on_the_last_rank(std::string_view strategy, strategy::Plan plan,
                                                           const char* wire = "auto") {
  plan.exchange.codec.name = wire;
  TorchJob job(strategy, 3, plan, computing_in(Precision::fp16));
  const int last = job.cluster.size() - 1;
  Overflowing overflowing(*job.learners[last], 2);
  std::map<int, std::vector<Seen>> seen;
  for (int rank = 0; rank <= last; ++rank) {
    *job.learners[rank]->loss_scale() = optim::LossScale({.initial = 1024});
    job.recorders[rank]->on_step = [&, rank](const observe::StepRecord&) {
      TorchLearner& learner = *job.learners[rank];
      seen[rank].push_back({numeric::hash(learner.parameters()), learner.loss_scale()->value()});
    };
    strategy::Learner& learner = rank == last ? static_cast<strategy::Learner&>(overflowing) : *job.learners[rank];
    job.strategies.push_back(
        strategy::make_strategy(job.info, plan, {job.cluster.comm(rank), learner, *job.recorders[rank], nullptr}));
  }
  job.cluster.run([&](collective::Communicator comm) { return job.strategies[comm.rank()]->run(); });
  EXPECT_TRUE(numeric::all_finite(job.weights())) << strategy;
  return seen;
}

TEST(LossScale, AnOverflowOnOneRankSkipsTheStepOnAllAndHalvesTheScale) {
  for (const char* strategy : {"ring", "gather-scatter", "ddp", "leader-ring", "accumulate"}) {
    for (const char* wire : {"auto", "fp16", "bf16"}) {
      const auto seen = overflow_on_the_last_rank(strategy, steps(5), wire);
      ASSERT_EQ(seen.size(), 3u) << strategy;
      for (const auto& [rank, after] : seen) {
        ASSERT_EQ(after.size(), 5u) << strategy;
        for (std::size_t step = 0; step < 5; ++step) {
          const std::string here = text(strategy, " ", wire, " rank ", rank, " step ", step);
          EXPECT_EQ(after[step].scale, step < 2 ? 1024 : 512) << here;
          EXPECT_EQ(after[step].weights, seen.at(0)[step].weights) << here;
          if (step > 0) {
            EXPECT_EQ(after[step].weights == after[step - 1].weights, step == 2) << here;
          }
        }
      }
    }
  }
}

TEST(LossScale, ParameterServersTellEachOtherAndTheWorkersOfAnOverflow) {
  for (const int shards : {1, 2}) {
    strategy::Plan plan = steps(5);
    plan.servers.count = shards;
    const auto seen = overflow_on_the_last_rank("ps-sync", plan);
    for (const auto& [rank, after] : seen) {
      if (rank < shards) continue;  // a server
      ASSERT_EQ(after.size(), 5u);
      EXPECT_EQ(after.back().scale, 512) << shards << " shards, rank " << rank;
      EXPECT_EQ(after.back().weights, seen.at(shards).back().weights) << shards << " shards, rank " << rank;
    }
  }
}

TEST(LossScale, IsEachWorkersOwnWhereWorkersStepByThemselves) {
  strategy::Plan plan = steps(8);
  plan.local.steps = 4;
  const auto seen = overflow_on_the_last_rank("local-sgd", plan);
  for (const auto& [rank, after] : seen) {
    ASSERT_EQ(after.size(), 8u);
    EXPECT_EQ(after[1].scale, 1024);
    EXPECT_EQ(after.back().scale, rank == 2 ? 512 : 1024) << "rank " << rank;
    EXPECT_EQ(after[2].weights == after[1].weights, rank == 2) << "rank " << rank;
    EXPECT_EQ(after.back().weights, seen.at(0).back().weights) << "after an average";
  }
}

/// The scale and weights of rank 0 after each step of training with that first scale.
std::vector<Seen> scales(optim::LossScaleOptions options, std::uint64_t count) {
  TorchJob job("ddp", 2, steps(count), computing_in(Precision::fp16));
  for (auto& learner : job.learners) *learner->loss_scale() = optim::LossScale(options);
  std::map<int, std::vector<Seen>> seen;
  job.on_step = [&](int rank, const observe::StepRecord&) {
    seen[rank].push_back({numeric::hash(job.learners[rank]->parameters()), job.learners[rank]->loss_scale()->value()});
  };
  job.run();
  EXPECT_EQ(seen[0].size(), count);
  for (std::size_t step = 0; step < count; ++step) {
    EXPECT_EQ(seen[0][step].scale, seen[1][step].scale) << "step " << step;
    EXPECT_EQ(seen[0][step].weights, seen[1][step].weights) << "step " << step;
  }
  return seen[0];
}

TEST(LossScale, FallsUntilNothingOverflowsAndOnlyThenStepsAreTaken) {
  const double far_too_large = std::exp2(30);
  const auto after = scales({.initial = far_too_large}, 30);
  double before = far_too_large;
  std::uint64_t weights = 0;
  std::size_t skipped = 0, taken = 0;
  for (const Seen& seen : after) {
    const bool overflowed = seen.scale == before / 2;
    EXPECT_TRUE(overflowed || seen.scale == before);
    if (weights != 0) {
      EXPECT_EQ(seen.weights == weights, overflowed);
    }
    (overflowed ? skipped : taken) += 1;
    weights = seen.weights;
    before = seen.scale;
  }
  EXPECT_GE(skipped, 5u);
  EXPECT_GE(taken, 5u);
}

TEST(LossScale, GrowsAfterEnoughGoodSteps) {
  const auto after = scales({.initial = 256, .interval = 3}, 8);
  std::vector<double> values;
  for (const Seen& seen : after) values.push_back(seen.scale);
  EXPECT_EQ(values, (std::vector<double>{256, 256, 512, 512, 512, 1024, 1024, 1024}));
}

TEST(LossScale, HasNoPartInOtherPrecisions) {
  for (const Precision precision : {Precision::fp32, Precision::fp64, Precision::bf16}) {
    EXPECT_EQ(TorchJob("ring", 1, steps(1), computing_in(precision)).learners[0]->loss_scale(), nullptr);
  }
}

}  // namespace
}  // namespace ripieno::train
