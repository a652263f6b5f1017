#include "ripieno/strategy/parameter_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "ripieno/numeric/elementwise.h"
#include "tests/strategy/placements.h"
#include "tests/support/job.h"

namespace ripieno::strategy {
namespace {

using testing::describe;
using testing::distance;
using testing::Job;
using testing::LinearOptions;
using testing::ms;
using testing::placements;
using testing::sgd;
using testing::single;

constexpr std::array server_names{"ps-sync", "ps-async", "ps-ssp"};

TEST(PsSync, TakesTheStepsOfOneWorkerOnAnyNumberOfShards) {
  Plan plan = sgd(3);
  plan.learning_rate.schedule = "cosine";
  const std::vector<double> one = single(plan), start(one.size(), 0.0);
  for (const int workers : {1, 2, 3, 4, 7}) {
    for (const ServerOptions& servers : placements(workers)) {
      plan.servers = servers;
      Job job("ps-sync", workers, plan);
      job.run();
      EXPECT_LE(testing::distance(job.weights(), one) / testing::distance(one, start), 1e-12)
          << workers << " workers, " << describe(servers);
    }
  }
}

TEST(PsSync, WorkersAgreeAfterEveryStepWithEveryCodec) {
  for (const char* codec : {"auto", "fp32", "fp16", "bf16", "int8", "qsgd", "sign", "topk"}) {
    for (const ServerOptions& servers : placements(4, 2)) {
      Plan plan = sgd(2);
      plan.servers = servers;
      plan.exchange.codec.name = codec;
      plan.exchange.codec.fraction = 0.3;
      Job job("ps-sync", 4, plan);
      std::map<std::uint64_t, std::vector<std::uint64_t>> hashes;
      job.on_step = [&](int rank, const observe::StepRecord& record) {
        if (job.info.worker(plan, rank) >= 0)
          hashes[record.step].push_back(numeric::hash(job.learners[rank]->parameters()));
      };
      job.run();
      EXPECT_EQ(hashes.size(), 14u);
      for (const auto& [step, all] : hashes) {
        EXPECT_EQ(all, std::vector<std::uint64_t>(4, all[0])) << codec << " step " << step;
      }
    }
  }
}

TEST(ParameterServers, SendTheBytesOfTheirClosedForm) {
  for (const char* name : server_names) {
    for (int workers = 1; workers <= 9; ++workers) {
      for (const ServerOptions& servers : placements(workers)) {
        for (const char* codec : {"auto", "fp16", "int8", "qsgd", "sign"}) {
          Plan plan = sgd(2);
          plan.servers = servers;
          plan.exchange.codec.name = codec;
          plan.exchange.codec.block = 8;
          Job job(name, workers, plan, {.samples = 50, .features = 29, .buffers = 3}, 16);
          job.run();
          for (int rank = 0; rank < job.cluster.size(); ++rank) {
            const Layout& layout = job.learners[rank]->layout();
            const auto expected = job.info.bytes_sent(job.info, plan, layout, job.workload(), rank);
            EXPECT_EQ(job.cluster.ledger(rank).total(observe::Purpose::exchange).payload_sent, expected.value())
                << name << ", " << workers << " workers, " << codec << ", rank " << rank << ", " << describe(servers);
          }
        }
      }
    }
  }
}

TEST(ParameterServers, SayWhereBytesDependOnTheNumbersAndThatMemoryCostsNone) {
  Plan plan = sgd(1);
  plan.exchange.codec.name = "topk-sampled";
  Job apart("ps-async", 2, plan);
  apart.run();
  EXPECT_EQ(ps_bytes_sent(apart.info, plan, apart.learners[1]->layout(), apart.workload(), 1), std::nullopt);
  plan.servers.beside = true;
  Job alone("ps-async", 1, plan, {.buffers = 3});
  alone.run();
  EXPECT_EQ(alone.cluster.ledger(0).total().payload_sent, 0u);
  EXPECT_EQ(ps_bytes_sent(alone.info, plan, alone.learners[0]->layout(), alone.workload(), 0), 0u);
}

TEST(ParameterServers, LearnWithLossyCodecsAndRepeatBitForBit) {
  for (const char* name : server_names) {
    for (const char* codec : {"auto", "int8", "topk"}) {
      for (const ServerOptions& servers : placements(4, 2)) {
        Plan plan = sgd(60, 0.05, 0);
        plan.servers = servers;
        plan.exchange.codec.name = codec;
        plan.exchange.codec.fraction = 0.4;
        std::uint64_t first = 0;
        for (int run = 0; run < 2; ++run) {
          Job job(name, 4, plan, {.buffers = 3, .sample_cost = ms(1)});
          job.run();
          const observe::EpochRecord last = job.recorders[0]->epochs().back();
          EXPECT_EQ(job.recorders[0]->epochs().size(), 60u) << name << ", " << describe(servers);
          EXPECT_GT(last.accuracy, 0.95) << name << " " << codec << ", " << describe(servers);
          const std::uint64_t digest = numeric::hash(job.strategies[0]->consensus());
          EXPECT_EQ(last.parameters_hash, digest);
          for (const auto& learner : job.learners) EXPECT_EQ(numeric::hash(learner->parameters()), digest);
          if (run == 1) {
            EXPECT_EQ(digest, first) << name << " " << codec << ", " << describe(servers);
          }
          first = digest;
        }
      }
    }
  }
}

TEST(ParameterServers, NoShardUsesAGradientThatOverflowed) {
  for (const char* name : server_names) {
    for (const ServerOptions& servers : placements(3, 2)) {
      Plan plan = sgd(40, 0.05);
      plan.servers = servers;
      Job job(name, 3, plan, {.sample_cost = ms(1), .loss_scale = true});
      job.run();
      EXPECT_GT(job.recorders[0]->epochs().back().accuracy, 0.95) << name << ", " << describe(servers);
      const int first = job.info.servers(plan);
      for (int worker = 0; worker < 3; ++worker) {
        const double value = job.learners[first + worker]->loss_scale()->value();
        EXPECT_LT(value, 65536) << name;  // it did overflow
        if (std::string_view(name) == "ps-sync") {
          EXPECT_EQ(value, job.learners[first]->loss_scale()->value());
        }
      }
    }
  }
}

/// What a program's checkpoint of a rank holds.
void visit(Job& job, int rank, testing::SavedState& saved, bool restoring) {
  saved.begin(restoring);
  saved.span("parameters", job.learners[rank]->parameters());
  saved.span("buffers", job.learners[rank]->buffers());
  job.strategies[rank]->visit(saved);
}

TEST(PsSync, GoesOnBitForBitFromACheckpoint) {
  for (const char* codec : {"auto", "fp16", "int8"}) {
    for (const ServerOptions& servers : placements(3, 2)) {
      Plan plan = sgd(5);
      plan.servers = servers;
      plan.exchange.codec.name = codec;
      std::vector<testing::SavedState> saved(8);
      std::uint64_t whole = 0;
      for (const std::uint32_t first : {0u, 2u}) {
        plan.first_epoch = first;
        Job job("ps-sync", 3, plan, {.buffers = 2});
        for (int rank = 0; rank < job.cluster.size(); ++rank) {
          job.learners.push_back(std::make_unique<testing::LinearLearner>(job.cluster.runtime(), job.options[rank]));
          job.recorders.push_back(std::make_unique<observe::Recorder>(job.cluster.runtime(), nullptr, nullptr));
          const auto checkpoint = [&, rank](std::uint32_t epoch) {
            if (first == 0 && epoch == 1) visit(job, rank, saved[rank], false);
          };
          const Workplace place{job.cluster.comm(rank), *job.learners[rank], *job.recorders[rank], checkpoint};
          job.strategies.push_back(job.info.make(job.info, plan, place));
          if (first > 0) visit(job, rank, saved[rank], true);
        }
        job.run();
        const std::uint64_t digest = numeric::hash(job.strategies[0]->consensus());
        if (first == 0) {
          whole = digest;
        } else {
          EXPECT_EQ(digest, whole) << codec << ", " << describe(servers);
        }
      }
    }
  }
}

TEST(ParameterServers, GoOnFromTheWeightsThatTheirShardsEndedWith) {
  for (const char* name : server_names) {
    for (const ServerOptions& servers : placements(3, 2)) {
      Plan plan = sgd(2);
      plan.servers = servers;
      plan.exchange.codec.name = "fp16";  // workers hold less than the shards do
      Job ended(name, 3, plan, {.buffers = 2});
      ended.run();
      plan.first_epoch = 2;
      plan.epochs = 3;
      plan.learning_rate.base = 0;
      Job resumed(name, 3, plan, {.buffers = 2});
      resumed.make();
      for (int rank = 0; rank < ended.cluster.size(); ++rank) {
        testing::SavedState saved;
        visit(ended, rank, saved, false);
        visit(resumed, rank, saved, true);
        std::ranges::fill(resumed.learners[rank]->parameters().as<double>(), 7.0);
      }
      resumed.run();
      EXPECT_EQ(resumed.weights(), ended.weights()) << name << ", " << describe(servers);
      EXPECT_EQ(resumed.recorders[0]->epochs().at(0).epoch, 2u);
    }
  }
}

Task<> run_and_keep_error(Strategy* strategy, std::string* what) {
  try {
    co_await strategy->run();
  } catch (const Error& error) {
    *what = error.what();
  }
}

TEST(ParameterServers, ALostWorkerEndsTheJobOnEveryRank) {
  for (const char* name : server_names) {
    for (const ServerOptions& servers : placements(4, 2)) {
      Plan plan = sgd(20);
      plan.servers = servers;
      plan.servers.staleness = 0;
      Job job(name, 4, plan, {.sample_cost = ms(1)});
      job.make();
      const int last = job.cluster.size() - 1;
      job.cluster.kill_at(ms(50), last);
      std::vector<std::string> what(job.cluster.size());
      job.cluster.run([&](collective::Communicator comm) {
        return run_and_keep_error(job.strategies[comm.rank()].get(), &what[comm.rank()]);
      });
      for (int rank = 0; rank < last; ++rank) {
        EXPECT_NE(what[rank].find("lost rank"), std::string::npos)
            << name << ", " << describe(servers) << ": " << what[rank];
      }
    }
  }
}

TEST(ParameterServers, RefuseWhatCannotBe) {
  const auto make = [](int workers, Plan plan) {
    Job job("ps-sync", workers, plan);
    testing::LinearLearner learner(job.cluster.runtime(), job.options[0]);
    observe::Recorder recorder(job.cluster.runtime(), nullptr, nullptr);
    make_ps_sync(job.info, plan, {job.cluster.comm(0), learner, recorder, nullptr});
  };
  Plan plan = sgd(1);
  plan.servers = {.count = 3, .beside = true};
  EXPECT_NO_THROW(make(3, plan));
  EXPECT_THROW(make(2, plan), Error);
  plan.servers = {.count = 14};  // of 13 numbers
  EXPECT_THROW(make(2, plan), Error);
  plan = sgd(1);
  plan.servers.beside = true;
  plan.exchange.codec.name = "powersgd";
  EXPECT_THROW(make(2, plan), Error);
}

TEST(ParameterServers, AStepLimitEndsThemWithAnEvaluation) {
  for (const char* name : server_names) {
    for (const ServerOptions& servers : placements(2, 2)) {
      Plan plan = sgd(5);
      plan.servers = servers;
      plan.max_steps = 9;  // of 7 an epoch
      Job job(name, 2, plan);
      job.run();
      for (int worker = 0; worker < 2; ++worker) {
        EXPECT_EQ(job.recorders[job.info.servers(plan) + worker]->steps(), 9u);
      }
      const auto& epochs = job.recorders[0]->epochs();
      ASSERT_EQ(epochs.size(), 2u) << name << ", " << describe(servers);
      EXPECT_EQ(epochs.back().epoch, 1u);
      EXPECT_FALSE(std::isnan(epochs.back().accuracy));
      EXPECT_EQ(epochs.back().parameters_hash, numeric::hash(job.strategies[0]->consensus()));
    }
  }
}

}  // namespace
}  // namespace ripieno::strategy
