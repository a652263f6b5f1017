#include "ripieno/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ripieno/core/error.h"

namespace ripieno::optim {
namespace {

using Options = LearningRateOptions;

TEST(LearningRate, ConstantIsBaseTimesScale) {
  const LearningRate rate({.base = 0.25}, 10, 4);
  for (const double epoch : {0.0, 0.3, 9.9, 10.0, 12.0}) EXPECT_EQ(rate.at(epoch), 1) << epoch;
}

TEST(LearningRate, StepFallsAtEachMilestone) {
  const LearningRate rate({.schedule = "step", .base = 1, .step_epochs = {2, 3.5, 40}, .step_factor = 0.5}, 10, 2);
  EXPECT_EQ(rate.at(0), 2);
  EXPECT_EQ(rate.at(1.999), 2);
  EXPECT_EQ(rate.at(2), 1);
  EXPECT_EQ(rate.at(3.499), 1);
  EXPECT_EQ(rate.at(3.5), 0.5);
  EXPECT_EQ(rate.at(10), 0.5);
  EXPECT_EQ(rate.at(50), 0.5);  // training ended before the last milestone
}

TEST(LearningRate, CosineFallsToItsFinalFraction) {
  const LearningRate rate({.schedule = "cosine", .base = 2, .final_fraction = 0.1}, 8, 1);
  EXPECT_DOUBLE_EQ(rate.at(0), 2);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.2 + 1.8 * (0.5 + std::sqrt(0.125)));  // an eighth of a turn: cos = sqrt(1/2)
  EXPECT_DOUBLE_EQ(rate.at(4), 1.1);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(9), 0.2);
}

TEST(LearningRate, OneCycleRisesToItsPeakAndFalls) {
  const Options options = {
      .schedule = "one-cycle", .base = 0.5, .final_fraction = 0.01, .peak_at = 0.25, .start_fraction = 0.2};
  const LearningRate rate(options, 20, 2);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(2.5), 0.6);  // half way up
  EXPECT_DOUBLE_EQ(rate.at(5), 1);
  EXPECT_DOUBLE_EQ(rate.at(12.5), 0.505);  // half way down
  EXPECT_DOUBLE_EQ(rate.at(20), 0.01);
}

TEST(LearningRate, TriangularGoesInStraightLines) {
  const LearningRate rate(
      {.schedule = "triangular", .base = 2, .final_fraction = 0.07, .peak_at = 0.25, .start_fraction = 0.2}, 8, 1);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.4);
  EXPECT_DOUBLE_EQ(rate.at(1), 1.2);
  EXPECT_DOUBLE_EQ(rate.at(2), 2);
  EXPECT_DOUBLE_EQ(rate.at(5), 1.07);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.14);
  const LearningRate down({.schedule = "triangular", .base = 2, .peak_at = 0}, 8, 1);
  EXPECT_DOUBLE_EQ(down.at(0), 2);
  EXPECT_DOUBLE_EQ(down.at(2), 1.5);
  EXPECT_DOUBLE_EQ(down.at(8), 0);
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=0.4, total_steps=11, pct_start=0.4): its peak is at 0.4 * 11 - 1.
TEST(LearningRate, OneCycleIsPyTorchs) {
  const std::vector<double> torch = {0.016000000000000014,
                                     0.09229414981518275,
                                     0.2605432940938398,
                                     0.3870346680456363,
                                     0.39189862712852064,
                                     0.3447470286337836,
                                     0.2654141310091137,
                                     0.1715379461972136,
                                     0.08398988213128807,
                                     0.022234421337374254,
                                     1.6e-06};
  const LearningRate rate({.schedule = "one-cycle", .base = 0.4, .final_fraction = 4e-6, .peak_at = 0.34}, 10, 1);
  for (std::size_t step = 0; step < torch.size(); ++step) {
    EXPECT_NEAR(rate.at(static_cast<double>(step)), torch[step], 1e-15) << step;
  }
}

TEST(LearningRate, WarmupRisesInALineFromATenthOfTheUnscaledBase) {
  const LearningRate rate({.base = 0.5, .warmup_epochs = 4}, 10, 8);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.05);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.05 + 3.95 / 4);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.05 + 3.95 / 2);
  EXPECT_DOUBLE_EQ(rate.at(4), 4);
  EXPECT_DOUBLE_EQ(rate.at(10), 4);
}

TEST(LearningRate, WarmupFromTheUnscaledBaseIsGoyals) {
  const LearningRate rate({.base = 0.1, .warmup_epochs = 5, .warmup_fraction = 1}, 90, 32);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(2.5), 1.65);
  EXPECT_DOUBLE_EQ(rate.at(5), 3.2);
}

TEST(LearningRate, CosineSpansWhatWarmupLeaves) {
  const LearningRate rate({.schedule = "cosine", .base = 1, .warmup_epochs = 2}, 10, 1);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.55);
  EXPECT_DOUBLE_EQ(rate.at(2), 1);
  EXPECT_DOUBLE_EQ(rate.at(6), 0.5);
  EXPECT_NEAR(rate.at(10), 0, 1e-15);
}

TEST(LearningRate, StepCountsFromTheStartOfTrainingAndWarmupMeetsIt) {
  const Options options = {
      .schedule = "step", .base = 1, .warmup_epochs = 4, .step_epochs = {3, 6}, .step_factor = 0.5};
  const LearningRate rate(options, 10, 1);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.3);  // half way from 0.1 to the 0.5 that holds after the first milestone
  EXPECT_DOUBLE_EQ(rate.at(4), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(6), 0.25);
}

TEST(LearningRate, WarmupRisesToWhereACycleBegins) {
  for (const char* schedule : {"one-cycle", "triangular"}) {
    const LearningRate rate({.schedule = schedule, .base = 1, .warmup_epochs = 2, .start_fraction = 0.04}, 12, 1);
    EXPECT_DOUBLE_EQ(rate.at(0), 0.004);
    EXPECT_DOUBLE_EQ(rate.at(1), 0.022);
    EXPECT_DOUBLE_EQ(rate.at(2), 0.04);
    EXPECT_DOUBLE_EQ(rate.at(5), 1);  // 0.3 of the ten epochs that follow
  }
  const LearningRate falling({.schedule = "triangular", .base = 1, .warmup_epochs = 2, .peak_at = 0}, 12, 1);
  EXPECT_DOUBLE_EQ(falling.at(0), 0.1);
  EXPECT_DOUBLE_EQ(falling.at(2), 1);
}

TEST(LearningRate, WarmupNeverFalls) {
  const LearningRate rate({.base = 1, .warmup_epochs = 2}, 12, 0.05);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.05);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.05);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.05);
}

TEST(LearningRate, RefusesOptionsOutOfRangeByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto message = [](const Options& options, double epochs = 10, double scale = 1) -> std::string {
    try {
      LearningRate(options, epochs, scale);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
      return error.what();
    }
    return "no error";
  };
  const std::vector<std::pair<std::string, std::string>> said_and_expected = {
      {message({.schedule = "linear"}), "\"linear\" is unknown; the known ones are constant, step, cosine, one-cycle"},
      {message({.base = -1}), "base = -1"},
      {message({.base = nan}), "base = nan"},
      {message({.warmup_epochs = 10}), "warmup_epochs = 10; give a number from 0 to below the 10 epochs"},
      {message({.warmup_epochs = -1}), "warmup_epochs = -1"},
      {message({.warmup_fraction = 2}), "warmup_fraction = 2"},
      {message({.step_epochs = {3, 2}}), "a number of step_epochs = 2; give a rising list; the one before is 3"},
      {message({.step_epochs = {0}}), "a number of step_epochs = 0"},
      {message({.step_factor = 0}), "step_factor = 0"},
      {message({.final_fraction = 1.5}), "final_fraction = 1.5"},
      {message({.peak_at = 1}), "peak_at = 1"},
      {message({.start_fraction = -0.5}), "start_fraction = -0.5"},
      {message({}, 0), "epochs = 0"},
      {message({}, 10, -2), "scale = -2"},
  };
  for (const auto& [said, expected] : said_and_expected) EXPECT_NE(said.find(expected), std::string::npos) << said;
}

TEST(LearningRate, AssertsThatProgressIsNotNegative) {
  const LearningRate rate({}, 10, 1);
  EXPECT_THROW(rate.at(-0.1), Error);
  EXPECT_THROW(rate.at(std::numeric_limits<double>::quiet_NaN()), Error);
}

}  // namespace
}  // namespace ripieno::optim
