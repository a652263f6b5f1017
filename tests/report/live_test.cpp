#include "ripieno/report/live.h"

#include <gtest/gtest.h>

#include "tests/report/runs.h"

namespace ripieno::report {
namespace {

using testing::made_run;

RunNow now_of(const report::Run& run, double window = 5) {
  std::vector<const Metrics*> ranks;
  for (const Metrics& rank : run.ranks) ranks.push_back(&rank);
  return run_now(ranks, window);
}

TEST(RunNow, RatesAreOfTheWindow) {
  report::Run run = made_run("ring", 2, 0);  // steps of 32 samples a rank end every 30 s
  run.ranks[0].steps.pop_back();
  const RunNow now = now_of(run, 40);
  ASSERT_EQ(now.ranks.size(), 2u);
  EXPECT_EQ(now.ranks[0].steps, 5u);
  EXPECT_DOUBLE_EQ(now.ranks[0].images_per_second, 32.0 / 30);
  EXPECT_DOUBLE_EQ(now.images_per_second, 64.0 / 30);
  EXPECT_EQ(now.ranks[0].loss, 1);
  EXPECT_DOUBLE_EQ(now.ranks[0].stages[observe::Stage::backward], 0.006);
  EXPECT_DOUBLE_EQ(*now.ranks[0].cpu, 0.875);
  EXPECT_DOUBLE_EQ(now.ranks[0].bytes_per_second, 2e6);
  EXPECT_EQ(now.accuracy, 0.9);
  // Rank 0 is the slowest: 5 of 6 steps, the last at 160 s, the first begun 10 ms before its end at 30.
  EXPECT_DOUBLE_EQ(now.fraction, 5.0 / 6);
  EXPECT_NEAR(*now.seconds_left, 130.01 / 5, 1e-9);
}

TEST(RunNow, HasNoRatesBeforeTheFirstSteps) {
  report::Run run = made_run("ring", 2, 0);
  for (Metrics& rank : run.ranks) {
    rank.steps.clear();
    rank.epochs.clear();
    rank.samples.clear();
  }
  run.ranks[1].start.reset();
  const RunNow now = now_of(run);
  ASSERT_EQ(now.ranks.size(), 1u);
  EXPECT_EQ(now.ranks[0].images_per_second, 0);
  EXPECT_FALSE(now.ranks[0].loss || now.ranks[0].cpu || now.seconds_left || now.accuracy);
  EXPECT_EQ(now.fraction, 0);
}

TEST(RunNow, AResumedRunCountsWhatItDidItself) {
  report::Run run = made_run("ring", 1, 0);
  run.ranks[0].start->first_epoch = 1;
  run.ranks[0].steps.erase(run.ranks[0].steps.begin(), run.ranks[0].steps.begin() + 3);  // of the epoch before
  run.ranks[0].steps.resize(1);                                                          // ends at 130 s
  const RunNow now = now_of(run);
  EXPECT_DOUBLE_EQ(now.fraction, 4.0 / 6);
  EXPECT_NEAR(*now.seconds_left, 0.01 * 2, 1e-9);
}

/// Its last sample is of this time, and says whom it waits for.
void samples_at(Metrics& rank, double time, std::vector<int> waits_for) {
  SampleLine sample;
  sample.time = time;
  sample.seconds = 1;
  sample.waits_for = std::move(waits_for);
  rank.samples.push_back(sample);
}

TEST(RunNow, WhereNothingMovesItSaysWhomAllWaitFor) {
  report::Run run = made_run("ring", 3, 0);  // a step takes 30 s, the last epoch ends at 200 s
  samples_at(run.ranks[0], 320, {2});
  samples_at(run.ranks[1], 321, {0});
  samples_at(run.ranks[2], 201, {1});  // stopped since
  RunNow now = now_of(run, 100);
  EXPECT_DOUBLE_EQ(now.still, 120);
  EXPECT_EQ(now.awaited, std::vector<int>{2});

  samples_at(run.ranks[1], 321, {});  // it computes, and nobody knows how long: rank 0 waits all the same
  now = now_of(run, 100);
  EXPECT_EQ(now.awaited, std::vector<int>{2});

  run.ranks[1].steps.back().time = 315;  // it goes on
  EXPECT_DOUBLE_EQ(now_of(run, 100).still, 0);
}

TEST(RunNow, AWaitWithinAStepIsNoNews) {
  report::Run run = made_run("ring", 2, 0);
  samples_at(run.ranks[0], 280, {1});  // 80 s, where steps take 30
  samples_at(run.ranks[1], 280, {0});
  const RunNow now = now_of(run, 100);
  EXPECT_DOUBLE_EQ(now.still, 0);
  EXPECT_TRUE(now.awaited.empty());
}

TEST(Waits, EndAtRanksThatDoNotWait) {
  EXPECT_EQ(awaited_at_last({{0, {3}}, {1, {0}}, {3, {2}}}), std::vector<int>{2});
  EXPECT_EQ(awaited_at_last({{0, {1, 2, 3}}, {1, {0}}}), (std::vector<int>{2, 3}));
  EXPECT_EQ(awaited_at_last({{0, {1}}, {1, {0}}}), (std::vector<int>{0, 1}));
  EXPECT_EQ(awaited_at_last({}), std::vector<int>{});
}

TEST(Waits, AreSaidInWords) {
  EXPECT_EQ(waiting_for({1}, 40.2), "waiting for rank 1 for 40 s");
  EXPECT_EQ(waiting_for({1, 3}, 5), "waiting for ranks 1 and 3 for 5 s");
  EXPECT_EQ(waiting_for({1, 2, 3, 4, 5, 6}, 100), "waiting for ranks 1, 2, 3, 4 and 2 more for 100 s");
}

}  // namespace
}  // namespace ripieno::report
