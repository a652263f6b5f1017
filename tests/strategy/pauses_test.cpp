// Pauses (strategy/pauses.h): wherever a run is saved, or stopped, it goes on from there with the bits of a run that
// never was; and all ranks hold at the same point.
#include "ripieno/strategy/pauses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ripieno/core/async.h"
#include "ripieno/testing/conformance.h"
#include "ripieno/testing/trial.h"
#include "tests/support/flip.h"

namespace ripieno::strategy {
namespace {

using testing::LinearOptions;
using testing::SavedState;
using testing::Trial;

LinearOptions learner(bool loss_scale) {
  return {.buffers = 3,
          .running_means = true,
          .dropout = 0.3,
          .sample_cost = Duration(200'000'000),
          .loss_scale = loss_scale};
}

struct Case {
  const StrategyInfo& info;
  Plan plan;
  int workers = 3;
  bool loss_scale = false;
  transport::SimulatedOptions network = {};

  std::unique_ptr<Trial> trial(const Plan& its) const {
    return std::make_unique<Trial>(info, workers, its, learner(loss_scale), 16, network);
  }
};

/// A plan of a strategy with a codec; nullopt if it is refused, or nothing can be saved before the end.
std::optional<Plan> plan_of(const StrategyInfo& info, const std::string& codec) {
  if (info.traits.own_pace) return std::nullopt;
  Plan plan = testing::conformance_plan();
  plan.epochs = 3;
  plan.exchange.codec.name = codec;
  plan.passes = info.traits.sums_passes ? 3 : 2;
  plan.local = {.steps = 4};
  Trial trial(info, 3, plan, {});
  try {
    trial.make();
  } catch (const Error&) {
    return std::nullopt;
  }
  return plan;
}

/// What all ranks have saved, by the point.
using Saved = std::map<Point, std::vector<SavedState>>;

/// Runs with requests: after the step `asks[i]` of its own, rank i % P asks.
Saved run_with_requests(Trial* trial, const std::vector<std::uint64_t>& asks, int signal = 0) {
  Saved saved;
  trial->save = [&](int rank, Point point) {
    auto& states = saved[point];
    states.resize(static_cast<std::size_t>(trial->cluster.size()));
    trial->walk(rank, states[static_cast<std::size_t>(rank)], false);
  };
  trial->on_step = [&](int rank, const observe::StepRecord& record) {
    for (std::size_t i = 0; i < asks.size(); ++i) {
      const int asker = trial->first_worker() + static_cast<int>(i) % trial->workers;
      if (rank != asker || record.step != asks[i]) continue;
      Pauses& own = *trial->pauses[static_cast<std::size_t>(rank)];
      signal > 0 ? own.ask_to_stop(signal) : own.ask_to_save();
    }
  };
  trial->run();
  return saved;
}

std::string difference(Trial& a, Trial& b) {
  for (int rank = a.first_worker(); rank < a.cluster.size(); ++rank) {
    const std::string what = a.state(rank).difference(b.state(rank));
    if (!what.empty()) return text("rank ", rank, " has another ", what);
  }
  return a.weights() == b.weights() ? "" : "the consensus is another";
}

/// The run of a case that goes on from what was saved.
std::unique_ptr<Trial> resumed(const Case& of, Point point, std::vector<SavedState>& states) {
  Plan rest = of.plan;
  rest.first_epoch = point.epoch;
  rest.first_step = point.step;
  auto trial = of.trial(rest);
  trial->make();
  for (int rank = 0; rank < trial->cluster.size(); ++rank)
    trial->walk(rank, states[static_cast<std::size_t>(rank)], true);
  trial->run();
  return trial;
}

/// How many of the points that were saved are within an epoch.
int check(const Case& of, const std::vector<std::uint64_t>& asks) {
  const auto whole = of.trial(of.plan), paused = of.trial(of.plan);
  whole->run();
  Saved saved = run_with_requests(paused.get(), asks);
  EXPECT_EQ(difference(*paused, *whole), "") << "a pause changes the run";
  EXPECT_FALSE(saved.empty()) << "nothing was saved";
  int within = 0;
  for (auto& [point, states] : saved) {
    const auto rest = resumed(of, point, states);
    EXPECT_EQ(difference(*rest, *whole), "") << "resumed at epoch " << point.epoch << " step " << point.step;
    within += point.step > 0;
  }
  return within;
}

TEST(Pauses, EveryStrategyGoesOnWithTheSameBits) {
  std::map<std::string_view, int> within;
  for (const StrategyInfo& info : strategies()) {
    for (const char* codec : {"auto", "none", "fp16", "int8", "topk", "qsgd", "sign", "powersgd"}) {
      const auto plan = plan_of(info, codec);
      if (!plan) continue;
      SCOPED_TRACE(text(info.name, " with codec ", codec));
      within[info.name] += check({info, *plan, info.traits.alone ? 1 : 3}, {4, 9});
    }
  }
  for (const char* name :
       {"ring", "ddp", "accumulate", "leader-ring", "local-sgd", "diloco", "gossip-pairs", "ring-passes"})
    EXPECT_GT(within[name], 0) << name << " is never saved within an epoch";
}

TEST(Pauses, TheLossScaleIsPartOfTheState) {
  for (const char* name : {"ring", "ddp", "accumulate"}) {
    const StrategyInfo& info = find_strategy(name);
    EXPECT_GT(check({info, *plan_of(info, "int8"), 3, true}, {3, 8}), 0) << name;
  }
}

TEST(Pauses, OfAnExchangeInTheNextForwardPassWaitsForIt) {
  const StrategyInfo& info = find_strategy("ddp");
  Plan plan = *plan_of(info, "auto");
  plan.exchange.forward = true;
  EXPECT_GT(check({info, plan}, {2, 9}), 0);
}

/// With a delay, an exchange is in flight after most steps: the run is saved where none is.
TEST(Pauses, ComeWhereNoDelayedExchangeIsInFlight) {
  for (const std::uint32_t delay : {1u, 2u, 4u}) {
    const StrategyInfo& info = find_strategy("diloco");
    Plan plan = *plan_of(info, "auto");
    plan.local = {.steps = 4, .fragments = 1, .delay = delay};
    check({info, plan}, {3, 10});
  }
}

TEST(Pauses, AtAnyStepAndAfterAnyDelay) {
  for (const char* name : {"ring", "diloco", "gossip-exponential", "fedavg", "ps-sync"}) {
    const StrategyInfo& info = find_strategy(name);
    for (std::uint64_t step = 0; step < 14; step += 2) {
      transport::SimulatedOptions network;
      network.link.latency = from_seconds(std::pow(10, -5.0 + 0.3 * static_cast<double>(step)));
      SCOPED_TRACE(text(name, ", step ", step));
      check({info, *plan_of(info, "auto"), 3, false, network}, {step, step});
    }
  }
}

/// Every rank ends where it has saved, and nobody waits.
TEST(Pauses, StopAllRanksAtOnePoint) {
  for (const StrategyInfo& info : strategies()) {
    const auto plan = plan_of(info, "auto");
    if (!plan) continue;
    SCOPED_TRACE(info.name);
    const Case of{info, *plan, info.traits.alone ? 1 : 3};
    const auto whole = of.trial(of.plan), stopped = of.trial(of.plan);
    whole->run();
    Saved saved;
    stopped->save = [&](int rank, Point point) {
      auto& states = saved[point];
      states.resize(static_cast<std::size_t>(stopped->cluster.size()));
      stopped->walk(rank, states[static_cast<std::size_t>(rank)], false);
    };
    stopped->on_step = [&](int rank, const observe::StepRecord& record) {
      if (record.step == 5 && rank + 1 == stopped->cluster.size()) stopped->pauses[rank]->ask_to_stop(15);
    };
    stopped->make();
    int ended = 0;
    const auto run = [&](collective::Communicator comm) -> Task<> {
      const std::exception_ptr error = co_await error_of(stopped->strategies[comm.rank()]->run());
      ended += error != nullptr && stopped->pauses[comm.rank()]->stopped_by() == 15;
    };
    stopped->cluster.run(run);
    EXPECT_EQ(ended, stopped->cluster.size());
    ASSERT_EQ(saved.size(), 1u);
    EXPECT_EQ(difference(*resumed(of, saved.begin()->first, saved.begin()->second), *whole), "");
  }
}

/// Rank 0 asks at a time, and all ranks save or stop.
Saved run_with_request_at(const Case& of, Duration when, int signal, int* ended) {
  const auto trial = of.trial(of.plan);
  Saved saved;
  std::map<Point, int> ranks;
  trial->save = [&](int rank, Point point) {
    auto& states = saved[point];
    states.resize(static_cast<std::size_t>(trial->cluster.size()));
    trial->walk(rank, states[static_cast<std::size_t>(rank)], false);
    ++ranks[point];
  };
  trial->make();
  Runtime& runtime = trial->cluster.runtime();
  runtime.call_at(when, [&] { signal > 0 ? trial->pauses[0]->ask_to_stop(signal) : trial->pauses[0]->ask_to_save(); });
  trial->cluster.run([&](collective::Communicator comm) -> Task<> {
    const std::exception_ptr error = co_await error_of(trial->strategies[comm.rank()]->run());
    *ended += error != nullptr;
  });
  for (const auto& [point, count] : ranks) EXPECT_EQ(count, trial->cluster.size()) << described(point);
  return saved;
}

/// A server does not hold where workers do: what all agree on while it passes an epoch's end is done as of there.
TEST(Pauses, AServerMayAskAtAnyTime) {
  const StrategyInfo& info = find_strategy("ps-sync");
  Plan plan = *plan_of(info, "auto");
  plan.servers.count = 2;
  transport::SimulatedOptions network;
  network.link.latency = from_seconds(0.001);
  const Case of{info, plan, 3, false, network};
  const auto whole = of.trial(plan);
  whole->run();
  int saves = 0, stops = 0;
  for (int i = 0; i < 120; ++i) {
    for (const int signal : {0, 15}) {
      SCOPED_TRACE(text("asked after ", i, " of 120 parts of the time, signal ", signal));
      int ended = 0;
      Saved saved = run_with_request_at(of, whole->took * i / 120, signal, &ended);
      EXPECT_LE(saved.size(), 1u);
      EXPECT_EQ(ended, signal > 0 && !saved.empty() ? whole->cluster.size() : 0);
      for (auto& [point, states] : saved) {
        EXPECT_LT(point, (Point{plan.epochs, 0})) << "the end is saved by itself";
        EXPECT_EQ(difference(*resumed(of, point, states), *whole), "");
        ++(signal > 0 ? stops : saves);
      }
    }
  }
  EXPECT_GT(saves, 60);
  EXPECT_GT(stops, 60);
}

/// Who goes on first after a loss may ask before the others have heard of it.
TEST(Pauses, ARequestAroundALossKeepsNobody) {
  const StrategyInfo& info = find_strategy("leader-ring");
  Plan plan = *plan_of(info, "auto");
  plan.epochs = 6;
  transport::SimulatedOptions network;
  network.link.latency = from_seconds(0.001);
  const Case of{info, plan, 4, false, network};
  const auto whole = of.trial(plan);
  whole->run();
  int saved = 0;
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const auto trial = of.trial(plan);
    std::map<Point, int> ranks;
    trial->save = [&](int, Point point) { ++ranks[point]; };
    trial->make();
    const Duration death = whole->took / 3 + whole->took * (i % 20) / 200;
    trial->cluster.kill_at(death, 3);
    const Duration when = death + from_seconds(0.0001 * (i - 100));
    trial->cluster.runtime().call_at(when, [&] { trial->pauses[static_cast<std::size_t>(i % 3)]->ask_to_save(); });
    trial->run();
    EXPECT_EQ(trial->recorders[0]->steps(), whole->recorders[0]->steps());
    EXPECT_EQ(trial->weights(0), trial->weights(1));
    EXPECT_EQ(trial->weights(0), trial->weights(2));
    for (const auto& [point, count] : ranks) EXPECT_GE(count, 3) << described(point);
    saved += !ranks.empty();
  }
  EXPECT_GT(saved, 190);
}

/// Numbers that have parted are not saved, nor gone on from.
TEST(Pauses, RanksThatDifferSaveNothing) {
  for (const auto& [name, part] :
       {std::pair("ring", "parameters"), std::pair("ddp", "parameters"), std::pair("local-sgd", "local.agreed")}) {
    SCOPED_TRACE(name);
    const StrategyInfo& info = find_strategy(name);
    const Case of{info, *plan_of(info, "auto")};
    const auto trial = of.trial(of.plan);
    int saved = 0, mismatches = 0;
    trial->save = [&](int, Point) { ++saved; };
    trial->make();
    trial->on_step = [&](int rank, const observe::StepRecord& record) {
      if (rank != 1 || record.step != 1) return;
      testing::FlipIn harm(part);
      harm.span("parameters", trial->learners[1]->parameters());
      trial->strategies[1]->visit(harm);
      EXPECT_TRUE(harm.found);
      trial->pauses[1]->ask_to_save();
    };
    trial->cluster.run_mortal([&](collective::Communicator comm) -> Task<> {
      try {
        co_await trial->strategies[comm.rank()]->run();
      } catch (const Error& error) {
        mismatches += error.kind() == ErrorKind::mismatch;
      }
    });
    EXPECT_EQ(saved, 0);
    EXPECT_GT(mismatches, 0);
  }
}

TEST(Pauses, StatesThatDifferAreNotGoneOnFrom) {
  const StrategyInfo& info = find_strategy("ring");
  const Case of{info, *plan_of(info, "auto")};
  const auto paused = of.trial(of.plan);
  Saved saved = run_with_requests(paused.get(), {4});
  ASSERT_EQ(saved.size(), 1u);
  Plan rest = of.plan;
  rest.first_epoch = saved.begin()->first.epoch;
  rest.first_step = saved.begin()->first.step;
  const auto trial = of.trial(rest);
  trial->make();
  for (int rank = 0; rank < 3; ++rank) trial->walk(rank, saved.begin()->second[static_cast<std::size_t>(rank)], true);
  testing::flip(trial->learners[0]->parameters().as<double>()[0]);
  int mismatches = 0;
  trial->cluster.run_mortal([&](collective::Communicator comm) -> Task<> {
    try {
      co_await trial->strategies[comm.rank()]->run();
    } catch (const Error& error) {
      mismatches += error.kind() == ErrorKind::mismatch;
    }
  });
  EXPECT_GT(mismatches, 0);
}

/// A server's state of an epoch's end is the model, though its learner has learnt nothing.
TEST(Pauses, AServersStateIsTheModelWhereNothingIsLeftToTrain) {
  const StrategyInfo& info = find_strategy("ps-sync");
  Plan plan = *plan_of(info, "auto");
  plan.servers.count = 2;
  const Case of{info, plan};
  Plan shorter = plan;
  shorter.epochs = 2;
  shorter.learning_rate = plan.learning_rate;
  const auto whole = of.trial(shorter), paused = of.trial(plan);
  whole->run();
  Saved saved = run_with_requests(paused.get(), {whole->learners.back()->steps_per_epoch()});
  ASSERT_EQ(saved.count({2, 0}), 1u);
  Plan rest = shorter;
  rest.first_epoch = 2;
  const auto trial = of.trial(rest);
  trial->make();
  for (int rank = 0; rank < trial->cluster.size(); ++rank)
    trial->walk(rank, saved.begin()->second[static_cast<std::size_t>(rank)], true);
  trial->run();
  EXPECT_EQ(trial->weights(), whole->weights());
}

/// Who asks near the end does not keep the others.
TEST(Pauses, ARequestThatComesTooLateChangesNothing) {
  for (const char* name : {"ring", "local-sgd", "ps-sync"}) {
    const StrategyInfo& info = find_strategy(name);
    const Case of{info, *plan_of(info, "auto")};
    const auto whole = of.trial(of.plan), late = of.trial(of.plan);
    whole->run();
    const std::uint64_t last = 3 * whole->learners.back()->steps_per_epoch() - 1;
    EXPECT_TRUE(run_with_requests(late.get(), {last}, 2).empty());
    EXPECT_EQ(difference(*late, *whole), "") << name;
  }
}

}  // namespace
}  // namespace ripieno::strategy
