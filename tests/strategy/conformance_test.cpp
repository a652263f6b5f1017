// The conformance kit: every strategy of the registry passes, and strategies with one fault each fail the checks that
// are meant for it, and no others.
#include "ripieno/testing/conformance.h"
#include "ripieno/strategy/alike.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ripieno/numeric/elementwise.h"
#include "ripieno/strategy/synchronous.h"

namespace ripieno::strategy {
namespace {

testing::ConformanceOptions options_for(const StrategyInfo& info) {
  testing::ConformanceOptions options;
  if (info.name == "accumulate") options.plan.passes = 3;
  if (info.name == "ring-passes") options.plan.passes = 2;
  if (info.name == "fedadam") options.plan.outer.learning_rate = 0.3;
  if (info.name == "hierarchical") options.per_node = 3;
  return options;
}

std::set<std::string_view> failed(const std::vector<testing::Finding>& findings) {
  std::set<std::string_view> names;
  for (const testing::Finding& finding : findings) {
    if (!finding.passed) names.insert(finding.check);
  }
  return names;
}

class Conformance : public ::testing::TestWithParam<std::string_view> {};

TEST_P(Conformance, OfTheRegistry) {
  const StrategyInfo& info = find_strategy(GetParam());
  const std::vector<testing::Finding> findings = testing::check_conformance(info, options_for(info));
  EXPECT_TRUE(testing::conforms(findings)) << testing::report(findings);
  EXPECT_EQ(findings.size(), 12u);
  // What is promised is checked: nothing is left out but what is named here.
  std::set<std::string_view> left_out;
  if (!info.exact) left_out = {"exact", "noticed", "uneven"};
  if (!info.agrees) left_out.insert("agrees");
  if (info.name == "single") left_out = {"uneven", "mismatch"};
  if (info.name == "ps-async" || info.name == "ps-ssp") left_out.insert("resume");
  if (info.traits.own_pace) left_out.insert("retake");
  for (const testing::Finding& finding : findings) {
    EXPECT_NE(finding.applies, left_out.contains(finding.check)) << finding.check << ": " << finding.detail;
    if (finding.check == "exact" && finding.applies) {
      const char* const workers = info.name == "single" ? "P = 1:" : "P = 1, 2, 3, 4, 7:";
      EXPECT_TRUE(finding.detail.starts_with(workers)) << finding.detail;
    }
    if (finding.check == "mismatch" && finding.applies) {
      EXPECT_NE(finding.detail.find("rank 1 expects broadcast of 14 fp64"), std::string::npos) << finding.detail;
    }
  }
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const StrategyInfo& info : strategies()) names.push_back(info.name);
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string_view>& name) {
  std::string valid(name.param);
  std::replace(valid.begin(), valid.end(), '-', '_');
  return valid;
}

INSTANTIATE_TEST_SUITE_P(Every, Conformance, ::testing::ValuesIn(names()), test_name);

enum class Fault {
  none,
  forgets_rank_1,
  counts_heads,
  differs_on_rank_1,
  random,
  steps_on_overflow,
  starts_apart,
  forgets_state,
  stands_still,
  steps_early,
  keeps_residuals_early,
  draws_from_a_stream
};

int runs = 0;  // what a random strategy goes by

/// Synchronous SGD, with one fault.
template <Fault fault>
class Faulty final : public Alike {
 public:
  Faulty(const StrategyInfo& info, const Plan& plan, Workplace place)
      : Alike(info, plan, std::move(place)), run_(place_.comm.rank() == 0 ? ++runs : runs) {}

  void visit(StateVisitor& visitor) override {
    visitor.number("draws", draws_);
    if (fault != Fault::forgets_state) optimiser_->visit(visitor);
    averager_->visit(visitor);
  }

 private:
  Task<> start() override {
    if (fault != Fault::starts_apart) co_await Alike::start();
  }

  Task<> attempt(TrainingStep step, StepResult* result) override {
    Learner& learner = place_.learner;
    const collective::Communicator& comm = place_.comm;
    const auto pass = co_await learner.begin(step.batch, unweighted);
    static_cast<PassResult&>(*result) = co_await pass->finish();
    numeric::scale(learner.gradients(), fault == Fault::counts_heads ? 1.0 : result->samples);
    if (fault == Fault::forgets_rank_1 && comm.rank() == 1) numeric::scale(learner.gradients(), 0);
    const double weight = 1.0 / (fault == Fault::counts_heads ? comm.size() : result->global_samples) / loss_scale();
    if (fault == Fault::draws_from_a_stream)
      numeric::scale(learner.gradients(), 1 + 0x1p-52 * Random(7, draws_++).below(16));
    if (fault == Fault::steps_early) optimiser_->begin_step();
    for (std::size_t i = 0; i < layout_.buckets.size(); ++i) {
      const Range bucket = layout_.buckets[i];
      co_await average(i, weight);
      if (fault == Fault::keeps_residuals_early) averager_->commit(i);
      if (fault != Fault::steps_early || !numeric::all_finite(learner.gradients())) continue;
      optimiser_->update(bucket.begin, learner.parameters().slice(bucket.begin, bucket.end),
                         learner.gradients().slice(bucket.begin, bucket.end), step.rate);
    }
  }

  void update(TrainingStep step) override {
    Learner& learner = place_.learner;
    const double rate = fault == Fault::stands_still ? 0 : step.rate;
    if (fault == Fault::steps_early && learner.loss_scale())
      learner.loss_scale()->update(numeric::all_finite(learner.gradients()));
    if (fault == Fault::steps_early) return;
    if (fault == Fault::steps_on_overflow) {
      optimiser_->begin_step();
      optimiser_->update(0, learner.parameters(), learner.gradients(), rate);
    } else {
      step_if_finite(place_, *optimiser_, rate);
    }
    double& first = learner.parameters().template as<double>()[0];
    if (fault == Fault::differs_on_rank_1 && place_.comm.rank() == 1) first = std::nextafter(first, 1e9);
    if (fault == Fault::random) first *= 1 + 0x1p-52 * (run_ % 61);
  }

  int run_;
  std::int64_t draws_ = 0;
};

template <Fault fault>
std::unique_ptr<Strategy> make_faulty(const StrategyInfo& info, const Plan& plan, Workplace place) {
  return std::make_unique<Faulty<fault>>(info, plan, std::move(place));
}

std::optional<std::uint64_t> form_less_one(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                           const Workload& work, int rank) {
  const auto bytes = synchronous_bytes_sent(info, plan, layout, work, rank);
  return bytes && *bytes > 0 ? std::optional(*bytes - 1) : bytes;
}

template <Fault fault>
std::set<std::string_view> failed_by(decltype(StrategyInfo::bytes_sent) bytes = synchronous_bytes_sent) {
  const StrategyInfo info{
      "own", "of no registry",   "gradients", "every step",       "ring",           true, true, DataUse::global_batches,
      false, make_faulty<fault>, bytes,       synchronous_rounds, {.commits = true}};
  runs = 0;
  return failed(testing::check_conformance(info));
}

using Names = std::set<std::string_view>;

TEST(PlantedFault, WithoutOneAllPasses) { EXPECT_EQ(failed_by<Fault::none>(), Names()); }
TEST(PlantedFault, AForgottenGradient) { EXPECT_EQ(failed_by<Fault::forgets_rank_1>(), (Names{"exact", "uneven"})); }
TEST(PlantedFault, HeadsInsteadOfSamples) { EXPECT_EQ(failed_by<Fault::counts_heads>(), (Names{"exact", "uneven"})); }
// The first epoch's end ends each run, which compares what the ranks hold.
TEST(PlantedFault, ALastBitOnRank1) {
  EXPECT_EQ(failed_by<Fault::differs_on_rank_1>(), (Names{"exact", "noticed", "uneven", "agrees", "repeats", "learns",
                                                          "bytes", "overflow", "start", "resume", "retake"}));
}
TEST(PlantedFault, AClosedFormOffByOne) { EXPECT_EQ(failed_by<Fault::none>(form_less_one), Names{"bytes"}); }
// Starting from other weights and going on in new objects are second runs, too.
TEST(PlantedFault, RandomResults) {
  EXPECT_EQ(failed_by<Fault::random>(), (Names{"repeats", "start", "resume", "retake"}));
}
TEST(PlantedFault, StepsOnOverflow) { EXPECT_EQ(failed_by<Fault::steps_on_overflow>(), Names{"overflow"}); }
TEST(PlantedFault, StateThatIsNotShown) { EXPECT_EQ(failed_by<Fault::forgets_state>(), Names{"resume"}); }

// One that overflows in its second bucket has stepped on the first, too.
TEST(PlantedFault, StepsBeforeAllHasLanded) { EXPECT_EQ(failed_by<Fault::steps_early>(), Names{"retake"}); }
TEST(PlantedFault, ResidualsBeforeAllHasLanded) {
  EXPECT_EQ(failed_by<Fault::keeps_residuals_early>(), Names{"retake"});
}
TEST(PlantedFault, RandomNumbersFromAStream) { EXPECT_EQ(failed_by<Fault::draws_from_a_stream>(), Names{"retake"}); }

TEST(PlantedFault, StartsFromItsOwnWeights) { EXPECT_EQ(failed_by<Fault::starts_apart>(), Names{"start"}); }
// An overflow leaves nothing to get better; to drop a gradient would still be noticed.
TEST(PlantedFault, NothingIsLearnt) {
  EXPECT_EQ(failed_by<Fault::stands_still>(), (Names{"exact", "uneven", "learns", "overflow"}));
}

TEST(Report, SaysWhatPassedWhatFailedAndWhatDoesNotApply) {
  const std::vector<testing::Finding> findings{{"exact", "as one", true, true, "P = 2"},
                                               {"bytes", "as counted", true, false, "3, not 4"},
                                               {"resume", "goes on", false, true, "saves nothing"}};
  EXPECT_FALSE(testing::conforms(findings));
  EXPECT_EQ(testing::report(findings),
            "ok      exact     as one\n                  P = 2\n"
            "FAILED  bytes     as counted\n                  3, not 4\n"
            "-       resume    goes on\n                  saves nothing\n");
}

}  // namespace
}  // namespace ripieno::strategy
