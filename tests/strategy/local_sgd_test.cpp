#include "ripieno/strategy/local_sgd.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <set>

#include "ripieno/strategy/refusals.h"
#include "tests/support/apart_job.h"

namespace ripieno::strategy {
namespace {

using testing::ApartJob;
using testing::distance;
using testing::LinearLearner;
using testing::Reference;
using testing::resumes_bit_for_bit;
using testing::sgd;
using testing::Vector;

/// The linear learner's weights as tensors of 4, 1, 3, 1 and 4 numbers.
class FiveTensors final : public Learner {
 public:
  explicit FiveTensors(testing::LinearLearner& inner) : inner_(inner), layout_(inner.layout()) {
    layout_.tensors.clear();
    std::size_t begin = 0;
    for (const std::size_t size : {4, 1, 3, 1, 4}) {
      layout_.tensors.push_back({text("tensor", begin), {static_cast<std::int64_t>(size)}, {begin, begin + size}});
      begin += size;
    }
    require(begin == layout_.parameters, "five tensors of 13 numbers, not of ", layout_.parameters);
  }
  const Layout& layout() const override { return layout_; }
  NumberSpan parameters() override { return inner_.parameters(); }
  NumberSpan gradients() override { return inner_.gradients(); }
  NumberSpan buffers() override { return inner_.buffers(); }
  std::uint32_t steps_per_epoch() const override { return inner_.steps_per_epoch(); }
  std::uint32_t samples_per_epoch() const override { return inner_.samples_per_epoch(); }
  Task<std::unique_ptr<Pass>> begin(data::BatchId batch, Weighting weighting) override {
    return inner_.begin(batch, std::move(weighting));
  }
  Gates& gates() override { return inner_.gates(); }
  void commit() override { inner_.commit(); }
  void drop() override { inner_.drop(); }
  Task<Evaluation> evaluate(int part, int parts) override { return inner_.evaluate(part, parts); }

 private:
  testing::LinearLearner& inner_;
  Layout layout_;
};

void five_tensors(ApartJob& job) {
  job.face = [](testing::LinearLearner& inner) { return std::make_unique<FiveTensors>(inner); };
}

Plan local(std::uint32_t steps, std::uint32_t fragments = 1, std::uint32_t delay = 0, Plan plan = sgd(2, 0.05)) {
  plan.local = {steps, fragments, delay};
  return plan;
}

struct Computed {
  Reference at;
  Vector consensus = Vector(13);
};

/// What local_sgd.h says, on whole vectors, from weights that are all `start`. `cuts`: where fragments end.
Computed computed(const ApartJob& job, bool diloco, const std::vector<std::size_t>& cuts, double start) {
  struct UnderWay {
    std::size_t begin, end;
    std::uint64_t due;
    Vector mean;
    std::vector<Vector> then;
  };
  Reference at(job);
  const auto [k, fragments, delay] = job.plan.local;
  const std::uint64_t per_epoch = at.steps_per_epoch();
  at.w.assign(at.workers, Vector(13, start));
  Vector agreed(13, start), outer(13);
  std::vector<Vector> learnt(fragments, Vector(at.workers));
  std::deque<UnderWay> all;
  const auto apply = [&](std::uint64_t step) {
    for (; !all.empty() && all.front().due <= step; all.pop_front()) {
      for (std::size_t j = all.front().begin; j < all.front().end; ++j) {
        outer[j] = 0.9 * outer[j] + all.front().mean[j];
        agreed[j] -= diloco ? 0.7 * (all.front().mean[j] + 0.9 * outer[j]) : all.front().mean[j];
        for (std::size_t r = 0; r < at.workers; ++r) at.w[r][j] += agreed[j] - all.front().then[r][j];
      }
    }
  };
  for (std::uint64_t step = 0; step < job.plan.epochs * per_epoch; ++step) {
    at.local_step(step, false);
    for (Vector& samples : learnt) {
      for (std::size_t r = 0; r < at.workers; ++r) samples[r] += static_cast<double>(at.batch(r, step).indices.size());
    }
    apply(step);
    for (std::size_t f = 0; f < fragments; ++f) {
      if ((step + 1 + f * k / fragments) % k != 0) continue;
      UnderWay exchange{f ? cuts[f - 1] : 0, cuts[f], step + delay, Vector(13), at.w};
      const double sum = std::accumulate(learnt[f].begin(), learnt[f].end(), 0.0);
      for (std::size_t r = 0; r < at.workers; ++r) {
        for (std::size_t j = 0; j < 13; ++j) exchange.mean[j] += learnt[f][r] / sum * (agreed[j] - at.w[r][j]);
      }
      learnt[f] = Vector(at.workers);
      all.push_back(exchange);
    }
    apply((step + 1) % per_epoch == 0 ? UINT64_MAX : step);
  }
  Computed all_in_all{std::move(at)};
  for (std::size_t f = 0; f < fragments; ++f) {
    const double sum = std::accumulate(learnt[f].begin(), learnt[f].end(), 0.0);
    for (std::size_t r = 0; r < all_in_all.at.workers; ++r) {
      const double part = sum > 0 ? learnt[f][r] / sum : 1.0 / static_cast<double>(all_in_all.at.workers);
      for (std::size_t j = f ? cuts[f - 1] : 0; j < cuts[f]; ++j)
        all_in_all.consensus[j] += part * all_in_all.at.w[r][j];
    }
  }
  return all_in_all;
}

TEST(Fragments, AreWholeTensorsCutNearestToTheEvenCuts) {
  Layout layout;
  layout.parameters = 20;
  for (const Range range : std::vector<Range>{{0, 9}, {9, 10}, {10, 12}, {12, 19}, {19, 20}}) {
    layout.tensors.push_back({"", {static_cast<std::int64_t>(range.size())}, range});
  }
  EXPECT_EQ(fragments_of(layout, 1), (std::vector<Range>{{0, 20}}));
  EXPECT_EQ(fragments_of(layout, 2), (std::vector<Range>{{0, 10}, {10, 20}}));
  EXPECT_EQ(fragments_of(layout, 3), (std::vector<Range>{{0, 9}, {9, 12}, {12, 20}}));
  EXPECT_EQ(fragments_of(layout, 5), (std::vector<Range>{{0, 9}, {9, 10}, {10, 12}, {12, 19}, {19, 20}}));
  EXPECT_THROW(fragments_of(layout, 6), Error);
  EXPECT_THROW(fragments_of(layout, 0), Error);
}

TEST(Fragments, EachIsExchangedOnceInKStepsAndEvenlySpread) {
  for (std::uint32_t k = 1; k <= 9; ++k) {
    for (std::uint32_t fragments = 1; fragments <= k; ++fragments) {
      std::vector<std::uint64_t> steps;
      for (std::uint64_t step = 0; step < 2 * k; ++step) {
        for (std::uint32_t f = 0; f < fragments; ++f) {
          if (exchanges_after({k, fragments, 0}, f, step)) steps.push_back(step);
        }
      }
      ASSERT_EQ(steps.size(), 2 * fragments);
      for (std::size_t i = 1; i < steps.size(); ++i) {
        EXPECT_GE(steps[i] - steps[i - 1], k / fragments);
        EXPECT_LE(steps[i] - steps[i - 1], (k + fragments - 1) / fragments);
      }
      EXPECT_TRUE(exchanges_after({k, fragments, 0}, 0, k - 1));
    }
  }
}

TEST(LocalSgd, WithOneLocalStepAndPlainSgdTakesTheStepsOfOneWorker) {
  const auto weights = [](int workers) {
    ApartJob job("local-sgd", workers, local(1, 1, 0, sgd(3, 0.1, 0)));  // 103 samples in batches of 16
    job.run();
    for (int rank = 1; rank < workers; ++rank) {
      EXPECT_EQ(job.own(rank), job.own(0));
    }
    EXPECT_LE(testing::distance(job.own(0), job.weights(workers - 1)), 1e-14);
    return job.own(0);
  };
  ApartJob job("local-sgd", 1, local(1, 1, 0, sgd(3, 0.1, 0)));
  Reference one(job);
  for (std::uint64_t step = 0; step < 3 * one.steps_per_epoch(); ++step) one.local_step(step, false);
  EXPECT_GT(testing::distance(one.w[0], Vector(13)), 0.1);
  for (const int workers : {1, 2, 3, 4, 5, 7, 17})
    EXPECT_LE(testing::distance(weights(workers), one.w[0]), 1e-12) << workers;
}

TEST(LocalSgd, TakesTheStepsOfThePlainComputation) {
  for (const char* name : {"local-sgd", "diloco"}) {
    for (const auto& [steps, fragments, delay] :
         std::vector<LocalOptions>{{3, 1, 0}, {4, 1, 4}, {3, 3, 0}, {5, 2, 1}, {5, 2, 2}, {6, 3, 2}}) {
      for (int workers = 1; workers <= 5; ++workers) {
        ApartJob job(name, workers, local(steps, fragments, delay));
        five_tensors(job);
        testing::uneven(job);
        for (auto& options : job.options) {
          options.sampler.partition = data::Partition::shards_in_step;
          options.sampler.batch = 8;
        }
        job.make();
        for (double& weight : job.learners[0]->parameters().as<double>()) weight = 0.5;  // the others start from these
        job.run();
        const std::vector<std::vector<std::size_t>> cuts{{13}, {8, 13}, {4, 9, 13}};  // 5 and 8 are as near to 6.5
        const Computed expected = computed(job, std::string(name) == "diloco", cuts[fragments - 1], 0.5);
        for (int rank = 0; rank < workers; ++rank) {
          EXPECT_LE(testing::distance(job.own(rank), expected.at.w[rank]), 1e-12)
              << name << " P=" << workers << " k=" << steps << " F=" << fragments << " d=" << delay;
          EXPECT_LE(testing::distance(job.weights(rank), expected.consensus), 1e-12);
        }
      }
    }
  }
}

TEST(LocalSgd, AllAgreeAfterAnExchangeOfEverythingOnEveryRouteWithEveryCodec) {
  for (const char* route : {"ring", "direct", "halving-doubling"}) {
    for (const char* codec : {"auto", "fp16", "int8", "topk", "powersgd"}) {
      if (!collective::averages_over(codec, route)) continue;
      Plan plan = local(2);
      plan.exchange.route = route;
      plan.exchange.codec.name = codec;
      ApartJob job("diloco", 5, plan);
      std::map<std::uint64_t, std::set<std::uint64_t>> hashes;
      job.on_step = [&](int rank, const observe::StepRecord& record) {
        hashes[record.step].insert(numeric::hash(job.learners[rank]->parameters()));
      };
      job.run();
      EXPECT_EQ(hashes.size(), 14u);
      for (const auto& [step, all] : hashes) {
        EXPECT_EQ(all.size(), step % 2 == 1 ? 1u : 5u) << codec << " on " << route << " step " << step;
      }
    }
  }
}

TEST(LocalSgd, SendsTheBytesOfItsClosedForm) {
  for (const auto& [steps, fragments, delay] : std::vector<LocalOptions>{{4, 1, 0}, {5, 2, 2}}) {
    for (const char* codec : {"auto", "fp16", "int8", "topk", "powersgd"}) {
      for (int workers = 1; workers <= 9; ++workers) {
        Plan plan = local(steps, fragments, delay, sgd(3));
        plan.first_epoch = 1;
        plan.exchange.codec.name = codec;
        ApartJob job("local-sgd", workers, plan);
        five_tensors(job);
        job.run();
        for (int rank = 0; rank < workers; ++rank) {
          EXPECT_EQ(job.sent(rank), job.closed_form(rank))
              << codec << " F=" << fragments << " rank " << rank << " of " << workers;
        }
        if (workers == 3 && fragments == 1 && std::string(codec) == "auto") {
          // Steps 7 .. 20 exchange after 7, 11, 15, 19; a ring of 3 sends 4/3 of 13 numbers, to whole ones.
          EXPECT_EQ(job.sent(0) + job.sent(1) + job.sent(2), 4u * 4 * 13 * 8);
        }
      }
    }
  }
}

TEST(LocalSgd, WithDelayTheExchangeIsHiddenAndAsManyBytesAreSent) {
  const auto run = [](std::uint32_t delay) {
    const testing::LinearOptions options{.samples = 160, .sample_cost = std::chrono::milliseconds(1)};
    auto job = std::make_unique<ApartJob>("diloco", 4, local(4, 2, delay), options);
    five_tensors(*job);
    job->run();
    return job;
  };
  const auto plain = run(0), delayed = run(2);
  EXPECT_EQ(plain->sent(1), delayed->sent(1));
  EXPECT_EQ(plain->total(1, observe::Stage::hidden), Duration(0));
  EXPECT_GT(plain->total(1, observe::Stage::exchange), Duration(0));
  EXPECT_GT(delayed->total(1, observe::Stage::hidden), Duration(0));
  // Only what sets out after an epoch's last step is waited for: two of ten exchanges.
  EXPECT_LT(delayed->total(1, observe::Stage::exchange), plain->total(1, observe::Stage::exchange) / 4);
  EXPECT_LT(delayed->took, plain->took);
}

TEST(LocalSgd, ShowsEachExchangeInTheTrace) {
  ApartJob job("diloco", 2, local(4, 2, 2, sgd(1)));
  five_tensors(job);
  std::map<std::size_t, int> spans;
  job.on_step = [&](int rank, const observe::StepRecord&) {
    job.recorders[rank]->on_span = [&spans, rank](const observe::Span& span) {
      if (rank == 0 && span.what == std::string_view("exchange")) ++spans[span.index];
    };
  };
  job.run();
  EXPECT_EQ(spans, (std::map<std::size_t, int>{{0, 1}, {1, 2}}));  // of 7 steps: after 3, and after 1 and 5
}

TEST(LocalSgd, ResumesBitForBit) {
  for (const char* codec : {"auto", "int8"}) {
    Plan plan = local(4, 2, 1, sgd(5, 0.05));  // 7 steps an epoch: resumed within the four steps
    plan.exchange.codec.name = codec;
    EXPECT_TRUE(resumes_bit_for_bit("diloco", 3, plan, 3, five_tensors)) << codec;
  }
}

Task<> run_and_catch(Strategy* strategy, std::string* what) {
  try {
    co_await strategy->run();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::peer) *what = error.what();
  }
}

TEST(LocalSgd, EndsOnAllWhereAWorkerIsLostDuringAnExchange) {
  ApartJob job("local-sgd", 3, local(4, 1, 3), {.samples = 160, .sample_cost = std::chrono::milliseconds(1)});
  job.on_step = [&](int rank, const observe::StepRecord& record) {
    if (rank == 0 && record.step == 3) job.cluster.kill_at(job.cluster.runtime().now() + Duration(1), 2);
  };
  job.make();
  std::vector<std::string> what(3);
  job.cluster.run([&](collective::Communicator comm) {
    return run_and_catch(job.strategies[comm.rank()].get(), &what[comm.rank()]);
  });
  EXPECT_EQ(what, (std::vector<std::string>{"rank 0: lost rank 2", "rank 1: lost rank 2", "rank 2 was killed"}));
  EXPECT_EQ(job.recorders[0]->steps(), 6u);  // the loss is met where the exchange is due
}

/// The workers' own weights in the end, weighted by their samples.
Vector mean_by_samples(ApartJob& job) {
  Vector mean(13);
  const std::vector<std::uint32_t> samples = job.learners[0]->sampler().samples_of_all();
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  for (int rank = 0; rank < job.workers; ++rank) {
    const Vector own = job.own(rank);
    for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += samples[static_cast<std::size_t>(rank)] / sum * own[j];
  }
  return mean;
}

TEST(LocalSgd, TheConsensusWeighsWorkersAsAnExchangeWould) {
  // The same local training, of 4 steps, with an exchange after the last one and without any.
  const auto weights = [](const char* strategy, std::uint32_t steps, Vector* own) {
    ApartJob job(strategy, 4, local(steps, 1, 0, sgd(1, 0.05)), {.samples = 64});
    for (testing::LinearOptions& options : job.options) options.sampler.shares = {13, 1, 1, 1};
    job.run();
    if (own) *own = mean_by_samples(job);
    return job.weights();
  };
  Vector own;
  const Vector exchanged = weights("local-sgd", 4, nullptr), not_exchanged = weights("local-sgd", 5, &own);
  EXPECT_LE(distance(exchanged, not_exchanged), 1e-12);
  EXPECT_LE(distance(own, not_exchanged), 1e-12);
  EXPECT_GT(distance(exchanged, weights("gossip-pairs", 5, nullptr)), 1e-3);  // other ways come elsewhere
  EXPECT_LE(distance(weights("diloco", 5, &own), own), 1e-12);
}

TEST(LocalSgd, TheConsensusWeighsEachFragmentBySamplesSinceItsOwnExchange) {
  // Fragment 1 of 2 is exchanged after steps 1 and 3 of 4, fragment 0 after step 3 alone (from 0): then all agree.
  for (const std::uint32_t steps : {4u, 6u}) {
    ApartJob job("local-sgd", 3, local(steps, 2, 0, sgd(1, 0.05)), {.samples = 64});
    five_tensors(uneven(job));
    job.run();
    const Vector mean = mean_by_samples(job);
    for (std::size_t j = 0; j < 13; ++j) EXPECT_NEAR(job.weights()[j], mean[j], 1e-12) << steps << " " << j;
  }
}

TEST(LocalSgd, RefusesMoreFragmentsThanTensors) {
  ApartJob job("diloco", 2, local(4, 2));
  try {
    job.run();
    FAIL() << "one tensor in two fragments";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("local.fragments = 2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(ApartJob("diloco", 2, local(4, 0)).run(), Error);
}

TEST(LocalSgd, RefusesADelayInWhichTheNextExchangeWouldFall) {
  for (const auto& [steps, fragments, longest] : {std::array{4u, 1u, 4u}, {7u, 2u, 3u}, {8u, 3u, 2u}}) {
    for (const std::uint32_t delay : {longest, longest + 1}) {
      const Plan plan = local(steps, fragments, delay);
      const auto check = [&plan] { refuse({find_strategy("diloco"), plan, 2}); };
      if (delay == longest) {
        EXPECT_NO_THROW(check()) << steps << " " << fragments;
      } else {
        EXPECT_THROW(check(), Error) << steps << " " << fragments;
      }
    }
  }
}

}  // namespace
}  // namespace ripieno::strategy
