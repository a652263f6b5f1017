// The conformance kit over the way in which agree() runs a strategy: each rank's own loop hands its gradients to a
// StrategyRun, in virtual time.
//
// Three checks are left out. learns: nothing is evaluated within an agreement (below, the consensus itself is held
// against the truth). overflow: an agreement has no loss scale. resume and retake, which the kit finds not to apply: an
// agreement saves nothing, and a lost rank ends it.
#include <set>

#include "ripieno/loop/strategy_run.h"
#include "ripieno/testing/conformance.h"
#include "ripieno/testing/trial.h"
#include "tests/loop/line.h"

namespace ripieno::loop {
namespace {

using strategy::Plan;
using strategy::StrategyInfo;

/// The plan without an end: the loop ends it.
Plan endless(Plan plan) {
  plan.epochs = INT32_MAX;
  plan.evaluate_every = 0;
  return plan;
}

StrategyRun::Options options_of(const StrategyInfo& info, const Plan& plan, strategy::Workplace& place) {
  const strategy::Layout& layout = place.learner.layout();
  StrategyRun::Options options;
  options.learner.steps_per_epoch = place.learner.steps_per_epoch();
  options.learner.samples_per_epoch = place.learner.samples_per_epoch();
  options.learner.uneven_batches = !info.traits.own_pace && !info.traits.has_cloud;
  options.learner.first_rate = plan.learning_rate.base;
  options.learner.make_optimiser = [plan, &layout] {
    return optim::make_optimiser(plan.optimiser, layout.parameters, layout.type);
  };
  options.recorder = &place.recorder;
  return options;
}

LoopNumbers numbers_of(strategy::Learner& learner) {
  return {learner.parameters(), learner.gradients(), learner.buffers(), learner.frozen()};
}

/// To the kit a strategy, which trains at its start: by a loop around the strategy of the same name.
class InOwnLoop final : public strategy::Strategy {
 public:
  InOwnLoop(const StrategyInfo& info, const Plan& plan, strategy::Workplace workplace)
      : Strategy(plan, std::move(workplace)),
        run_(place_.comm, place_.learner.layout(), numbers_of(place_.learner), info, endless(plan),
             options_of(info, plan, place_)) {}

  NumberSpan consensus() override { return run_.strategy().consensus(); }
  NumberSpan consensus_buffers() override { return run_.strategy().consensus_buffers(); }
  void visit(StateVisitor& visitor) override { run_.strategy().visit(visitor); }

 private:
  Task<> start() override {
    const std::function<void(std::exception_ptr)> on_error = [this](std::exception_ptr error) { run_.leave(error); };
    Task<> together = both(place_.comm.runtime(), run_.run(), loop(), on_error);
    co_await std::move(together);
  }

  Task<> loop() {
    co_await run_.begin();
    for (std::uint32_t epoch = 0; epoch < plan_.epochs; ++epoch) {
      for (std::uint32_t step = 0; step < place_.learner.steps_per_epoch(); ++step) {
        const data::BatchId batch{epoch, step};
        const auto pass = co_await place_.learner.begin(batch, strategy::unweighted);
        const strategy::PassResult result = co_await pass->finish();
        place_.learner.commit();
        const Turn turn{.samples = result.samples, .rate = plan_.learning_rate.base};
        co_await run_.step(turn);
      }
    }
    co_await run_.finish();
  }

  std::uint32_t epochs_end() const override { return 0; }
  Task<> attempt(strategy::TrainingStep, strategy::StepResult*) override { co_return; }
  void commit(strategy::TrainingStep) override {}
  Task<> end_epoch(strategy::EpochEnd, observe::EpochRecord*) override { co_return; }

  StrategyRun run_;
};

StrategyInfo in_own_loop(std::string_view name) {
  StrategyInfo info = strategy::find_strategy(name);
  info.make = [](const StrategyInfo& looped, const Plan& plan,
                 strategy::Workplace place) -> std::unique_ptr<strategy::Strategy> {
    return std::make_unique<InOwnLoop>(strategy::find_strategy(looped.name), plan, std::move(place));
  };
  // The weights of a round that the loop does not take are sent, too: they could have been wanted.
  if (info.traits.has_cloud) info.bytes_sent = nullptr;
  info.traits.commits = false;
  return info;
}

Plan plan_for(const StrategyInfo& info) {
  Plan plan = testing::conformance_plan();
  plan.servers.beside = true;
  if (info.name == "accumulate") plan.passes = 3;
  if (info.name == "ring-passes") plan.passes = 2;
  if (info.name == "fedadam") plan.outer.learning_rate = 0.3;
  return plan;
}

class AgreeConformance : public ::testing::TestWithParam<std::string_view> {};

TEST_P(AgreeConformance, OfTheRegistry) {
  const StrategyInfo info = in_own_loop(GetParam());
  testing::ConformanceOptions options{.plan = plan_for(info), .max_workers = 5};
  std::set<std::string_view> failed, applied;
  for (const testing::Finding& finding : testing::check_conformance(info, options)) {
    if (finding.check == "learns" || finding.check == "overflow") continue;
    EXPECT_TRUE(finding.passed) << finding.check << ": " << finding.detail;
    if (finding.applies) applied.insert(finding.check);
  }
  std::set<std::string_view> expected{"repeats", "bytes", "start", "mismatch"};
  if (info.exact) expected.insert({"exact", "noticed", "uneven"});
  if (info.agrees) expected.insert("agrees");
  if (info.name == "single") expected = {"exact", "noticed", "agrees", "repeats", "bytes", "start"};
  EXPECT_EQ(applied, expected);
}

TEST_P(AgreeConformance, Learns) {
  const StrategyInfo info = in_own_loop(GetParam());
  Plan plan = plan_for(info);
  plan.epochs = 90;
  plan.optimiser.momentum = 0;
  testing::Trial trial(info, info.traits.alone ? 1 : 4, plan, {.buffers = 3});
  trial.run();
  const Numbers truth = trial.learners[0]->truth();
  EXPECT_LT(testing::distance(trial.weights(), truth), 0.1 * testing::distance(truth, Numbers(truth.size())));
}

std::vector<std::string_view> names_in_loops() {
  std::vector<std::string_view> names;
  for (const StrategyInfo& info : strategy::strategies()) {
    if (!info.traits.by_buckets) names.push_back(info.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Every, AgreeConformance, ::testing::ValuesIn(names_in_loops()), [](const auto& info) {
  std::string valid(info.param);
  std::replace(valid.begin(), valid.end(), '-', '_');
  return valid;
});

}  // namespace
}  // namespace ripieno::loop
