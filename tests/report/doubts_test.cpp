// What an experiment cannot answer is said on its page.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ripieno/report/conclusions.h"
#include "ripieno/report/ways.h"
#include "tests/report/runs.h"

namespace ripieno::report {
namespace {

using testing::made;
using testing::made_run;

std::string doubts(const std::vector<report::Run>& runs) {
  std::string all;
  const std::vector<Cell> ways = cells(runs);
  const std::vector<Conclusion> found = conclusions(ways);
  for (const Sentence& note : found.at(0).notes) {
    if (note.about == "doubt") all += note.str() + "\n";
  }
  return all;
}

TEST(Doubts, TwoWorkersCannotTellRoutesApart) {
  std::vector<report::Run> runs{made("ring", 0, {10, 100, 80, 95, 5}), made("gather-scatter", 0, {8, 100, 80, 95, 4}),
                                made("local-sgd", 0, {5, 10, 80, 94, 1})};
  for (report::Run& run : runs) run.summary.route = run.summary.strategy;
  EXPECT_EQ(
      doubts(runs),
      "Two workers cannot tell routes apart: ring and gather-scatter send the same between two; set workers = 4 or "
      "more.\n");
  runs.erase(runs.begin());
  EXPECT_EQ(doubts(runs), "");
  runs = {made("ring", 0, {10, 100, 80, 95, 5}), made("ddp", 0, {8, 100, 80, 95, 4})};
  runs[0].summary.route = "ring";
  runs[1].summary.route = "two-phase";
  EXPECT_EQ(doubts(runs), "") << "which send the same among any number";
  std::vector<report::Run> more{made_run("ring", 4, 0), made_run("ddp", 4, 0)};
  EXPECT_EQ(doubts(more), "") << "four workers";
}

TEST(Doubts, OneMachinesMemoryIsNoNetwork) {
  std::vector<report::Run> runs{made("ring", 0, {10, 100, 80, 95, 5}), made("local-sgd", 0, {5, 10, 80, 94, 1})};
  for (report::Run& run : runs) run.summary.ranks[0].ways = {"", "shared memory"};
  EXPECT_EQ(doubts(runs),
            "All workers share one machine's memory, where an exchange costs little: for times over a network set "
            "transport.mbit_s = 100 (each rank's link), or lab.nodes (emulated machines).\n");
  for (report::Run& run : runs) run.settings["transport.mbit_s"] = "100.0";
  EXPECT_EQ(doubts(runs), "");
}

TEST(Doubts, OthersThatKeepTheMachineBusyAreNoticed) {
  std::vector<report::Run> runs{made("ring", 0, {10, 100, 80, 95, 5}), made("local-sgd", 0, {5, 10, 80, 94, 1})};
  for (report::Run& run : runs) {
    for (Metrics& rank : run.ranks) {
      for (SampleLine& sample : rank.samples) {  // 2 s, in which a rank uses 1.75 s of CPU; four cores
        sample.machine_user = 3.5;
        sample.machine_idle = 4.5;
      }
    }
  }
  EXPECT_EQ(used_by_others(runs[0]), 0);
  EXPECT_EQ(doubts(runs), "");
  for (Metrics& rank : runs[1].ranks) {
    for (SampleLine& sample : rank.samples) {
      sample.machine_user += 2.4;
      sample.machine_idle -= 2.4;
    }
  }
  EXPECT_NEAR(*used_by_others(runs[1]), 0.3, 1e-9);
  EXPECT_EQ(
      doubts(runs),
      "Other programs used up to 30 % of the machine's CPU beside local-sgd, so that times are not those of a quiet "
      "machine: delete its folder and run the recipe again when it is quiet.\n");
}

TEST(Doubts, WhoIsNoBetterThanGuessingIsNamed) {
  std::vector<report::Run> runs{made("ring", 0, {10, 100, 9, 10, 5}), made("local-sgd", 0, {5, 10, 80, 94, 1})};
  for (report::Run& run : runs) run.guessing = {0.1, 0.19};
  EXPECT_EQ(doubts(runs),
            "ring cannot be told from guessing, which gets 10 % of the test set right, and up to 19 % by luck; raise "
            "train.epochs or "
            "data.train_samples, or change learning_rate.base.\n");
  runs.pop_back();
  EXPECT_NE(doubts(runs), "") << "of a single way, too";
}

}  // namespace
}  // namespace ripieno::report
