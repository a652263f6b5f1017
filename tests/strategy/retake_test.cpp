// Attempts at steps that an abort breaks off at any moment, on some ranks before they commit and on others after, and
// that are taken again: every way to agree ends with the bits of a run without. RIPIENO_RETAKES: runs of each case
// (100; with RIPIENO_FULL 500).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <ostream>

#include "ripieno/strategy/refusals.h"
#include "ripieno/testing/conformance.h"
#include "ripieno/testing/retaken.h"
#include "ripieno/testing/trial.h"

namespace ripieno::strategy {
namespace {

struct Case {
  std::string_view strategy;
  std::string_view codec;
  std::string_view variant = "";
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.strategy << " " << one.codec << " " << one.variant;
}

int runs() {
  const char* const asked = std::getenv("RIPIENO_RETAKES");
  if (asked) return std::atoi(asked);
  return std::getenv("RIPIENO_FULL") ? 500 : 100;
}

Plan plan_of(const Case& of) {
  Plan plan = testing::conformance_plan();
  plan.exchange.codec.name = of.codec;
  if (of.variant == "delayed fragments") plan.local = {.steps = 3, .fragments = 1, .delay = 2};
  if (of.variant == "every step") plan.local = {.steps = 1};
  if (of.variant == "full ring") plan.passes = 3;
  if (of.variant == "two passes") plan.passes = 2;
  if (of.variant == "half of the clients") plan.federated.fraction = 0.5;
  if (of.variant == "two local epochs") plan.federated.local_epochs = 2;
  if (of.variant == "statistics of their own") plan.federated.statistics = Statistics::local;
  if (of.variant == "statistics of rank 0") plan.federated.statistics = Statistics::rank0;
  if (of.variant == "seldom evaluated") plan.evaluate_every = 0;
  if (of.variant == "two in flight") plan.exchange.in_flight = 2;
  if (of.variant == "two shards") plan.servers.count = 2;
  if (of.variant == "shards beside") plan.servers = {.count = 2, .beside = true};
  if (of.variant == "adam") plan.optimiser = {.name = "adam"};
  if (of.variant == "lookahead") plan.optimiser.lookahead_every = 3;
  plan.optimiser.total_steps = 21;
  return plan;
}

bool is_refused(const StrategyInfo& info, const Plan& plan, int workers) {
  try {
    refuse({info, plan, workers});
  } catch (const Error&) {
    return true;
  }
  return false;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const StrategyInfo& info : strategies()) {
    for (const codec::CodecInfo& codec : codec::codecs()) {
      const Case one{info.name, codec.name};
      const Plan plan = plan_of(one);
      if (!info.traits.alone && can_retake(info, plan) && !is_refused(info, plan, 3)) all.push_back(one);
    }
  }
  for (const std::string_view codec : {"auto", "int8"}) {
    for (const std::string_view name : {"ring", "ddp", "accumulate", "leader-ring", "local-sgd", "diloco"}) {
      for (const std::string_view variant : {"fp16", "seldom evaluated", "adam", "lookahead", "four workers"}) {
        const Case one{name, codec, variant};
        if (!is_refused(find_strategy(name), plan_of(one), 4)) all.push_back(one);
      }
    }
    for (const std::string_view name : {"local-sgd", "diloco"}) {
      for (const std::string_view variant : {"delayed fragments", "every step"}) all.push_back({name, codec, variant});
    }
    for (const std::string_view name : {"fedavg", "fedadam"}) {
      for (const std::string_view variant : {"half of the clients", "two local epochs", "statistics of their own",
                                             "statistics of rank 0", "seldom evaluated", "four workers"}) {
        all.push_back({name, codec, variant});
      }
    }
    for (const std::string_view variant : {"two shards", "shards beside", "fp16", "adam", "seldom evaluated"})
      all.push_back({"ps-sync", codec, variant});
    all.push_back({"accumulate", codec, "two passes"});
    all.push_back({"ddp", codec, "two in flight"});
  }
  for (const std::string_view name : {"gossip-pairs", "gossip-exponential", "ring-passes", "ring-groups"}) {
    for (const std::string_view variant : {"seldom evaluated", "four workers", "adam"})
      all.push_back({name, "fp16", variant});
  }
  for (const std::string_view variant : {"full ring", "two passes"}) all.push_back({"ring-passes", "bf16", variant});
  return all;
}

class Retake : public ::testing::TestWithParam<Case> {};

TEST_P(Retake, GivesTheBitsOfARunWithout) {
  const Case& of = GetParam();
  const int workers = of.variant == "four workers" ? 4 : 3;
  EXPECT_EQ(
      testing::difference_when_retaken(find_strategy(of.strategy), plan_of(of), workers, runs(), of.variant == "fp16"),
      "");
}

/// Codecs that keep nothing between steps recover as these do.
std::vector<Case> without_most_codecs() {
  std::vector<Case> some = cases();
  std::erase_if(some, [](const Case& one) {
    return one.variant.empty() && one.codec != "auto" && one.codec != "topk" && one.codec != "powersgd";
  });
  return some;
}

class RetakeAgain : public Retake {};

TEST_P(RetakeAgain, WhileRanksRecoverGivesTheBitsOfARunWithout) {
  const Case& of = GetParam();
  const int workers = of.variant == "four workers" ? 4 : 3;
  const int every_ms = runs() < 500 ? 8 : 1;
  EXPECT_EQ(testing::difference_when_recovery_is_aborted(find_strategy(of.strategy), plan_of(of), workers,
                                                         of.variant == "fp16", every_ms),
            "");
}

std::string name_of(const ::testing::TestParamInfo<Case>& one) {
  std::string name =
      text(one.param.strategy, "_", one.param.codec, one.param.variant.empty() ? "" : "_", one.param.variant);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == ' '; }, '_');
  return name;
}

/// The first rank that commits each step ends the communicator then: the others have not committed it yet, and catch
/// up.
int caught_up(std::string_view strategy, std::string_view codec, std::string_view variant) {
  const Plan plan = plan_of({strategy, codec, variant});
  transport::SimulatedOptions network;
  network.link.latency = std::chrono::milliseconds(1);
  const testing::LinearOptions learner{.buffers = 3, .running_means = true, .sample_cost = Duration(200'000'000)};
  testing::Trial whole(find_strategy(strategy), 3, plan, learner, 16, network),
      interrupted(find_strategy(strategy), 3, plan, learner, 16, network);
  whole.run();
  interrupted.interrupt(0, 0, whole);  // but those that follow
  std::map<std::uint64_t, Duration> first;
  int late = 0;
  interrupted.on_step = [&](int rank, const observe::StepRecord& record) {
    const Duration now = interrupted.cluster.runtime().now();
    const auto [when, is_first] = first.try_emplace(record.step, now);
    if (is_first && record.step >= 3) interrupted.interruptions->begin(rank);  // all have begun to train
    late += now > when->second;
  };
  SCOPED_TRACE(text(strategy, " ", codec, " ", variant));
  EXPECT_NO_THROW(interrupted.run());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(interrupted.state(rank).difference(whole.state(rank)), "")
        << strategy << " " << codec << " " << variant << " rank " << rank;
  }
  return late;
}

TEST(CatchingUp, GivesTheBitsOfARunWithout) {
  for (const std::string_view codec : {"auto", "int8", "powersgd"}) {
    for (const std::string_view strategy :
         {"reduce-broadcast", "gather-scatter", "ring", "ddp", "accumulate", "leader-ring", "local-sgd", "diloco"}) {
      if (is_refused(find_strategy(strategy), plan_of({strategy, codec}), 3)) continue;
      EXPECT_GE(caught_up(strategy, codec, strategy == "local-sgd" ? "every step" : ""), 10)
          << strategy << " " << codec;
    }
  }
  for (const std::string_view strategy : {"gossip-pairs", "gossip-exponential", "ring-passes", "ring-groups"})
    EXPECT_GE(caught_up(strategy, "fp16", ""), 10) << strategy;
  EXPECT_GE(caught_up("ring-passes", "bf16", "full ring"), 10);
  EXPECT_GE(caught_up("diloco", "int8", "delayed fragments"), 10);
}

/// Whose updates come in the order of arrival, which an abort changes: but each push is one, once.
TEST(Retake, AsynchronousPushesCountOnce) {
  for (const std::string_view strategy : {"ps-async", "ps-ssp"}) {
    for (const bool beside : {false, true}) {
      Plan plan = plan_of({strategy, "int8"});
      plan.servers = {.count = 2, .beside = beside, .staleness = 1};
      int recovered = 0;
      for (int seed = 0; seed < 100; ++seed) {
        const testing::LinearOptions learner{.buffers = 3, .running_means = true, .sample_cost = Duration(200'000'000)};
        testing::Trial whole(find_strategy(strategy), 3, plan, learner),
            interrupted(find_strategy(strategy), 3, plan, learner);
        whole.run();
        interrupted.interrupt(static_cast<std::uint64_t>(seed), 1 + seed % 4, whole);
        interrupted.run();
        recovered += interrupted.interruptions->recovered;
        const std::int64_t pushes = 3 * static_cast<std::int64_t>(3 * whole.learners.back()->steps_per_epoch());
        for (int rank = 0; rank < plan.servers.count; ++rank) {
          EXPECT_EQ(interrupted.state(rank).number_of("ps.version"), pushes) << strategy << " run " << seed;
        }
        for (const auto& [age, count] : interrupted.recorders.back()->ages()) {
          EXPECT_TRUE(strategy == "ps-async" || age <= plan.servers.staleness) << age << ", " << count << " times";
        }
      }
      EXPECT_GE(recovered, 100) << strategy;
    }
  }
}

TEST(Retake, WhatCannotBeDroppedIsRefused) {
  Plan plan = plan_of({"ddp", "auto"});
  plan.exchange.forward = true;
  EXPECT_FALSE(can_retake(find_strategy("ddp"), plan));
  testing::Trial whole(find_strategy("ddp"), 2, plan), interrupted(find_strategy("ddp"), 2, plan);
  whole.run();
  interrupted.interrupt(0, 1, whole);
  try {
    interrupted.make();
    ADD_FAILURE() << "it was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("exchange.overlap = forward"), std::string::npos) << error.what();
  }
}

TEST(Dropped, WhatItSentIsCountedApart) {
  for (const std::string_view strategy : {"ring", "ddp", "diloco", "gossip-pairs"}) {
    const Plan plan = plan_of({strategy, "auto", "every step"});
    const testing::LinearOptions learner{.sample_cost = Duration(20'000'000)};
    testing::Trial whole(find_strategy(strategy), 3, plan, learner);
    whole.run();
    int exact = 0;
    for (int seed = 0; seed < 60; ++seed) {
      testing::Trial interrupted(find_strategy(strategy), 3, plan, learner);
      interrupted.interrupt(static_cast<std::uint64_t>(seed), 1, whole);
      interrupted.run();
      std::uint64_t dropped = 0;
      bool same = true;
      for (int rank = 0; rank < 3; ++rank) {
        const observe::Ledger& ledger = interrupted.cluster.ledger(rank);
        const std::uint64_t sent = ledger.total(observe::Purpose::exchange).payload_sent,
                            without = whole.cluster.ledger(rank).total(observe::Purpose::exchange).payload_sent;
        EXPECT_LE(sent, without) << strategy;  // who catches up was spared a part
        EXPECT_LE(without, sent + without / 10) << strategy;
        same = same && sent == without;
        dropped += ledger.dropped().payload_sent;
      }
      exact += same && dropped > 0;
    }
    EXPECT_GE(exact, 5) << strategy;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Retake, ::testing::ValuesIn(cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Some, RetakeAgain, ::testing::ValuesIn(without_most_codecs()), name_of);

}  // namespace
}  // namespace ripieno::strategy
