// The conformance kit: every strategy of the registry passes, and strategies with one fault each fail the checks that are
// meant for it, and no others.
#include "ripieno/strategy/conformance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ripieno/core/kernels.h"
#include "ripieno/strategy/steps.h"
#include "ripieno/strategy/synchronous.h"
#include "ripieno/strategy/together.h"

namespace ripieno {
namespace {

ConformanceOptions options_for(const StrategyInfo& info) {
  ConformanceOptions options;
  if (info.name == "accumulate") options.plan.passes = 3;
  if (info.name == "ring-passes") options.plan.passes = 2;
  if (info.name == "fedadam") options.plan.outer.learning_rate = 0.3;
  if (info.name == "hierarchical") options.per_node = 3;
  return options;
}

std::set<std::string_view> failed(const std::vector<Finding>& findings) {
  std::set<std::string_view> names;
  for (const Finding& finding : findings) {
    if (!finding.passed) names.insert(finding.check);
  }
  return names;
}

class Conformance : public ::testing::TestWithParam<std::string_view> {};

TEST_P(Conformance, OfTheRegistry) {
  const StrategyInfo& info = find_strategy(GetParam());
  const std::vector<Finding> findings = check_conformance(info, options_for(info));
  EXPECT_TRUE(conforms(findings)) << report(findings);
  EXPECT_EQ(findings.size(), 11u);
  // What is promised is checked: nothing is left out but what is named here.
  std::set<std::string_view> left_out;
  if (!info.exact) left_out = {"exact", "noticed", "uneven"};
  if (!info.agrees) left_out.insert("agrees");
  if (info.name == "single") left_out = {"uneven", "mismatch"};
  if (info.name == "ps-async" || info.name == "ps-ssp") left_out.insert("resume");
  for (const Finding& finding : findings) {
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

enum class Fault { none, forgets_rank_1, counts_heads, differs_on_rank_1, random, steps_on_overflow, starts_apart, forgets_state, stands_still };

int runs = 0;  // what a random strategy goes by

/// Synchronous SGD, with one fault.
template <Fault fault>
class Faulty final : public Strategy {
 public:
  Faulty(const StrategyInfo& info, const Plan& plan, Workplace place)
      : plan_(plan), place_(std::move(place)), layout_(place_.learner.layout()),
        averager_(averager_of(info, plan, {{layout_.parameters}}, layout_.type)),
        optimiser_(make_optimiser(plan.optimiser, layout_.parameters, layout_.type)), run_(place_.comm.rank() == 0 ? ++runs : runs) {}

  Task<> run() override {
    Learner& learner = place_.learner;
    const Communicator& comm = place_.comm;
    if (fault != Fault::starts_apart) co_await start_alike(comm, learner);
    const double rate = fault == Fault::stands_still ? 0 : plan_.learning_rate.base;
    for (Steps at(plan_, learner.steps_per_epoch()); at.more(); at.next()) {
      const auto pass = co_await learner.begin(at.batch(), unweighted);
      const PassResult result = co_await pass->finish();
      LossScale* const loss_scale = learner.loss_scale();
      scale(learner.gradients(), fault == Fault::counts_heads ? 1.0 : result.samples);
      if (loss_scale) scale(learner.gradients(), 1 / loss_scale->value());
      if (fault == Fault::forgets_rank_1 && comm.rank() == 1) scale(learner.gradients(), 0);
      const double weight = 1.0 / (fault == Fault::counts_heads ? comm.size() : result.global_samples);
      co_await averager_->average(comm, 0, learner.gradients(), weight);
      if (fault == Fault::steps_on_overflow) {
        optimiser_->begin_step();
        optimiser_->update(0, learner.parameters(), learner.gradients(), rate);
      } else {
        step_if_finite(place_, *optimiser_, rate);
      }
      double& first = learner.parameters().template as<double>()[0];
      if (fault == Fault::differs_on_rank_1 && comm.rank() == 1) first = std::nextafter(first, 1e9);
      if (fault == Fault::random) first *= 1 + 0x1p-52 * (run_ % 61);
      place_.recorder.step({at.epoch(), at.step(), result.loss, result.samples, rate, {}});
      if (!at.ends_epoch()) continue;
      co_await end_epoch_alike(&place_, &plan_, at.epoch(), at.ends());
      if (place_.checkpoint) place_.checkpoint(at.epoch());
    }
  }

  NumberSpan consensus() override { return place_.learner.parameters(); }
  void visit(StateVisitor& visitor) override {
    if (fault != Fault::forgets_state) optimiser_->visit(visitor);
    averager_->visit(visitor);
  }

 private:
  Plan plan_;
  Workplace place_;
  const Layout& layout_;
  std::unique_ptr<Averager> averager_;
  std::unique_ptr<Optimiser> optimiser_;
  int run_;
};

template <Fault fault>
std::unique_ptr<Strategy> make_faulty(const StrategyInfo& info, const Plan& plan, Workplace place) {
  return std::make_unique<Faulty<fault>>(info, plan, std::move(place));
}

std::optional<std::uint64_t> form(const StrategyInfo& info, const Plan& plan, const Layout& layout, const Workload& work, int rank) {
  const auto averager = averager_of(info, plan, {{layout.parameters}}, layout.type);
  const auto one = averager->bytes_sent(rank, work.world, 0);
  return one ? std::optional(*one * work.steps[0] * work.epochs) : std::nullopt;
}
std::optional<std::uint64_t> form_less_one(const StrategyInfo& info, const Plan& plan, const Layout& layout, const Workload& work,
                                           int rank) {
  const auto bytes = form(info, plan, layout, work, rank);
  return bytes && *bytes > 0 ? std::optional(*bytes - 1) : bytes;
}

template <Fault fault>
std::set<std::string_view> failed_by(decltype(StrategyInfo::bytes_sent) bytes = form) {
  const StrategyInfo info{"own", "of no registry", "gradients", "every step", "ring", true, true, DataUse::global_batches, false,
                          make_faulty<fault>, bytes, synchronous_rounds};
  runs = 0;
  return failed(check_conformance(info));
}

using Names = std::set<std::string_view>;

TEST(PlantedFault, WithoutOneAllPasses) { EXPECT_EQ(failed_by<Fault::none>(), Names()); }
TEST(PlantedFault, AForgottenGradient) { EXPECT_EQ(failed_by<Fault::forgets_rank_1>(), (Names{"exact", "uneven"})); }
TEST(PlantedFault, HeadsInsteadOfSamples) { EXPECT_EQ(failed_by<Fault::counts_heads>(), (Names{"exact", "uneven"})); }
// Who goes on starts from rank 0's weights: the difference does not outlive a stop.
TEST(PlantedFault, ALastBitOnRank1) { EXPECT_EQ(failed_by<Fault::differs_on_rank_1>(), (Names{"agrees", "resume"})); }
TEST(PlantedFault, AClosedFormOffByOne) { EXPECT_EQ(failed_by<Fault::none>(form_less_one), Names{"bytes"}); }
// Starting from other weights and going on in new objects are second runs, too.
TEST(PlantedFault, RandomResults) { EXPECT_EQ(failed_by<Fault::random>(), (Names{"repeats", "start", "resume"})); }
TEST(PlantedFault, StepsOnOverflow) { EXPECT_EQ(failed_by<Fault::steps_on_overflow>(), Names{"overflow"}); }
TEST(PlantedFault, StateThatIsNotShown) { EXPECT_EQ(failed_by<Fault::forgets_state>(), Names{"resume"}); }

TEST(PlantedFault, StartsFromItsOwnWeights) { EXPECT_EQ(failed_by<Fault::starts_apart>(), Names{"start"}); }
// An overflow leaves nothing to get better; to drop a gradient would still be noticed.
TEST(PlantedFault, NothingIsLearnt) { EXPECT_EQ(failed_by<Fault::stands_still>(), (Names{"exact", "uneven", "learns", "overflow"})); }

TEST(Report, SaysWhatPassedWhatFailedAndWhatDoesNotApply) {
  const std::vector<Finding> findings{{"exact", "as one", true, true, "P = 2"}, {"bytes", "as counted", true, false, "3, not 4"},
                                      {"resume", "goes on", false, true, "saves nothing"}};
  EXPECT_FALSE(conforms(findings));
  EXPECT_EQ(report(findings), "ok      exact     as one\n                  P = 2\n"
                              "FAILED  bytes     as counted\n                  3, not 4\n"
                              "-       resume    goes on\n                  saves nothing\n");
}

}  // namespace
}  // namespace ripieno
