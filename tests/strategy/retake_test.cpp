// Attempts at steps that an abort breaks off at any moment, on some ranks before they commit and on others after, and that are
// taken again: every way to agree ends with the bits of a run without. RIPIENO_RETAKES: runs of each case (500).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>

#include "ripieno/strategy/conformance.h"
#include "ripieno/strategy/refusals.h"

namespace ripieno {
namespace {

struct Case {
  std::string_view strategy;
  std::string_view codec;
  std::string_view variant = "";
};

std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.strategy << " " << one.codec << " " << one.variant; }

int runs() {
  const char* const asked = std::getenv("RIPIENO_RETAKES");
  return asked ? std::atoi(asked) : 500;
}

Plan plan_of(const Case& of) {
  Plan plan = conformance_plan();
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
    for (const CodecInfo& codec : codecs()) {
      const Case one{info.name, codec.name};
      const Plan plan = plan_of(one);
      if (!info.traits.alone && can_retake(info, plan) && !is_refused(info, plan, 3)) all.push_back(one);
    }
  }
  for (const std::string_view codec : {"auto", "int8"}) {
    for (const std::string_view name : {"ring", "ddp", "accumulate", "leader-ring", "local-sgd", "diloco"}) {
      for (const std::string_view variant : {"fp16", "seldom evaluated", "adam", "lookahead", "four workers"}) {
        all.push_back({name, codec, variant});
      }
    }
    for (const std::string_view name : {"local-sgd", "diloco"}) {
      for (const std::string_view variant : {"delayed fragments", "every step"}) all.push_back({name, codec, variant});
    }
    for (const std::string_view name : {"fedavg", "fedadam"}) {
      for (const std::string_view variant : {"half of the clients", "two local epochs", "statistics of their own", "statistics of rank 0",
                                             "seldom evaluated", "four workers"}) {
        all.push_back({name, codec, variant});
      }
    }
    all.push_back({"accumulate", codec, "two passes"});
    all.push_back({"ddp", codec, "two in flight"});
  }
  for (const std::string_view name : {"gossip-pairs", "gossip-exponential", "ring-passes"}) {
    for (const std::string_view variant : {"seldom evaluated", "four workers", "adam"}) all.push_back({name, "fp16", variant});
  }
  for (const std::string_view variant : {"full ring", "two passes"}) all.push_back({"ring-passes", "bf16", variant});
  return all;
}

class Retake : public ::testing::TestWithParam<Case> {};

TEST_P(Retake, GivesTheBitsOfARunWithout) {
  const Case& of = GetParam();
  const int workers = of.variant == "four workers" ? 4 : 3;
  EXPECT_EQ(difference_when_retaken(find_strategy(of.strategy), plan_of(of), workers, runs(), of.variant == "fp16"), "");
}

std::string name_of(const ::testing::TestParamInfo<Case>& one) {
  std::string name = text(one.param.strategy, "_", one.param.codec, one.param.variant.empty() ? "" : "_", one.param.variant);
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == ' '; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, Retake, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace ripieno
