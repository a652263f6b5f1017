#include "ripieno/predict/charged_learner.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ripieno::predict {
namespace {

Task<> take(ChargedLearner* learner, Runtime* runtime, std::vector<data::BatchId> batches,
            std::vector<Duration>* took) {
  for (const data::BatchId batch : batches) {
    const Duration start = runtime->now();
    strategy::Weighting weighting = strategy::unweighted;
    const auto pass = co_await learner->begin(batch, std::move(weighting));
    while (co_await pass->next_bucket()) {
    }
    co_await pass->finish();
    took->push_back(runtime->now() - start);
  }
}

TEST(ChargedLearner, AStepTakesItsTimeHoweverOftenItIsTaken) {
  ChargedOptions options;
  options.layout.parameters = 10;
  options.layout.buckets = {{0, 10}};
  options.profile = strategy::stated_profile(std::chrono::seconds(3), 1);
  options.factors = {1, 2, 3};
  options.steps = 2;
  const auto runtime = virtual_runtime(0);
  ChargedLearner learner(*runtime, options);
  std::vector<Duration> took;
  runtime->spawn("passes",
                 take(&learner, runtime.get(), {{0, 0}, {0, 1}, {0, 1}, {1, 0}, {1, 1}, {0, 0}, {1, 0}}, &took));
  runtime->run();
  const std::chrono::seconds one(3), two(6), three(9);
  EXPECT_EQ(took, (std::vector<Duration>{one, two, two, three, one, one, three}));
}

}  // namespace
}  // namespace ripieno::predict
