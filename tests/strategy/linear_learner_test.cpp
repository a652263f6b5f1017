#include "ripieno/testing/linear_learner.h"

#include <gtest/gtest.h>

#include "tests/support/dropped_passes.h"

namespace ripieno::strategy {
namespace {

testing::LinearOptions options_of(bool loss_scale) {
  testing::LinearOptions options{
      .samples = 60, .buffers = 3, .running_means = true, .dropout = 0.3, .loss_scale = loss_scale};
  options.sampler = {.seed = 5, .worker = 1, .workers = 2, .batch = 16};
  return options;
}

TEST(LinearLearner, ADroppedPassLeavesNothingBehind) {
  for (const bool loss_scale : {false, true}) {
    const auto runtime = virtual_runtime(0);
    testing::LinearLearner plain(*runtime, options_of(loss_scale)), dropping(*runtime, options_of(loss_scale));
    testing::expect_drops_leave_nothing(*runtime, plain, {}, dropping, {});
  }
}

TEST(LinearLearner, APassDependsOnItsBatchAlone) {
  const auto runtime = virtual_runtime(0);
  testing::LinearLearner learner(*runtime, options_of(false));
  testing::expect_batches_in_any_order(*runtime, learner, {});
}

TEST(LinearLearner, DropoutIsDrawnForSeedEpochStepAndWorker) {
  const auto gradients = [](testing::LinearOptions options, data::BatchId id) {
    options.sampler.shuffle = false;  // the samples are the same for all, but for the worker's own
    const auto runtime = virtual_runtime(0);
    testing::LinearLearner learner(*runtime, options);
    std::vector<testing::SavedState> left;
    testing::run(*runtime, testing::take_pass(&learner, id, {}, &left));
    const auto values = learner.gradients().as<double>();
    return std::vector<double>(values.begin(), values.end());
  };
  const testing::LinearOptions options = options_of(false);
  const std::vector<double> first = gradients(options, {0, 0});
  EXPECT_EQ(gradients(options, {0, 0}), first);
  EXPECT_NE(gradients(options, {1, 0}), first);
  testing::LinearOptions other = options;
  other.sampler.seed = 6;
  EXPECT_NE(gradients(other, {0, 0}), first);
  other = options;
  other.dropout = 0;
  EXPECT_EQ(gradients(other, {0, 0}), gradients(other, {1, 0})) << "nothing else depends on the epoch";
}

}  // namespace
}  // namespace ripieno::strategy
