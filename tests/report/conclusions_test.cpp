#include "ripieno/report/conclusions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ripieno/core/error.h"
#include "ripieno/report/setting.h"
#include "ripieno/report/ways.h"
#include "tests/report/runs.h"

namespace ripieno::report {
namespace {

using testing::line_of;
using testing::Made;
using testing::made;
using testing::made_run;

/// Three seeds that differ by `deviation` seconds and points: the middle one, the first and the last in turn from one
/// way to the next, so that ways share nothing.
void add(std::vector<report::Run>& runs, const std::string& name, const Made& what, double deviation) {
  const int turn = static_cast<int>(runs.size()) / 3;
  for (int seed = 0; seed < 3; ++seed) {
    Made one = what;
    one.seconds += deviation * ((seed + turn) % 3 - 1);
    one.last += deviation * ((seed + turn) % 3 - 1);
    runs.push_back(made(name, seed, one));
  }
}

std::string said(const std::vector<Sentence>& sentences, const std::string& about) {
  for (const Sentence& one : sentences) {
    if (one.about == about) return one.str();
  }
  return "";
}

TEST(Conclusions, CompareNoBytesWithWhatMpiWasHanded) {
  std::vector<report::Run> runs;
  add(runs, "ring", {10, 100, 80, 95, 5}, 0.05);
  add(runs, "ddp", {4.5, 50, 80, 95, 1}, 0.05);
  add(runs, "local-sgd", {5, 2.3, 70, 94, 0.4}, 0.05);
  for (report::Run& run : runs) {
    if (run.summary.name == "ddp") run.summary.route = "native";
  }
  const auto found = conclusions(cells(runs));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(said(found[0].sentences, "time").find("ddp is fastest"), 0u);
  const std::string bytes = said(found[0].sentences, "bytes");
  EXPECT_EQ(bytes.find("local-sgd sends least: 2.30 MB"), 0u) << bytes;
  EXPECT_EQ(bytes.find("ddp"), std::string::npos) << bytes;
}

TEST(Conclusions, NameTheWinnersByTimeByBytesAndByTimeToAccuracy) {
  std::vector<report::Run> runs;
  add(runs, "ring", {10, 100, 80, 95, 5}, 0.05);
  add(runs, "ddp", {4.5, 100, 80, 95, 1}, 0.05);
  add(runs, "gather-scatter", {14, 200, 80, 95, 9}, 0.05);
  add(runs, "local-sgd", {5, 2.3, 70, 94, 0.4}, 0.05);
  const auto found = conclusions(cells(runs));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].setting, "mnist-cnn on digits, 2 workers, batch 64, 2 epochs; compared with ring, a ring in fp32");
  ASSERT_EQ(found[0].sentences.size(), 3u);
  EXPECT_EQ(said(found[0].sentences, "time"), "ddp is fastest: 4.50 s an epoch, 2.2 times as fast as ring (10.0 s).");
  EXPECT_EQ(said(found[0].sentences, "bytes"),
            "local-sgd sends least: 2.30 MB an epoch from its busiest rank, 43 times fewer bytes than ring (100 MB), "
            "for 1.0 points less accuracy (94.0 against 95.0 %).");
  EXPECT_EQ(said(found[0].sentences, "accuracy"),
            "ddp comes to 93.5 % of the test set first, after 9.00 s of training: 2.2 times as fast as ring (20.0 s).");
  EXPECT_EQ(said(found[0].notes, "arithmetic"),
            "ring, ddp and gather-scatter do the same arithmetic: their accuracy is the same, 95.0 %; only time and "
            "bytes can differ.");
  EXPECT_EQ(
      said(found[0].notes, "seeds"),
      "Ways are compared seed by seed, by paired t-tests (times and bytes as ratios) over three seeds: 17 pairs in "
      "all. A pair is ranked at a level of 5 %, which holds for all pairs of one number together (Holm's "
      "correction).");
  EXPECT_EQ(found[0].ways, (std::vector<std::string>{"ring", "ddp", "gather-scatter", "local-sgd"}));
  EXPECT_NE(str(found).find("ddp is fastest"), std::string::npos);
}

TEST(Conclusions, ARunThatLostARankDoesOtherArithmetic) {
  std::vector<report::Run> runs;
  add(runs, "ring", {10, 100, 80, 95, 5}, 0.05);
  add(runs, "ddp", {4.5, 100, 80, 95, 1}, 0.05);
  ASSERT_NE(said(conclusions(cells(runs)).at(0).notes, "arithmetic"), "");
  for (report::Run& run : runs) {
    if (run.summary.name == "ddp") run.summary.ranks = {RankSummary{.rank = 0}};
  }
  const auto found = conclusions(cells(runs));
  EXPECT_EQ(said(found.at(0).notes, "arithmetic"), "");
  EXPECT_EQ(said(found.at(0).notes, "losses"), "ddp, seed 0: it lost rank 1 of 2 on the way.");
}

TEST(Conclusions, EveryNumberOfASentenceHasItsLine) {
  std::vector<report::Run> runs;
  add(runs, "ring", {10, 100, 80, 95, 5}, 0.05);
  add(runs, "local-sgd", {5, 2.3, 70, 94, 0.4}, 0.05);
  std::size_t numbers = 0;
  const auto found = conclusions(cells(runs));
  for (const Sentence& sentence : found[0].sentences) {
    for (const Piece& piece : sentence.pieces) {
      const bool has_digit = piece.text.find_first_of("0123456789") != std::string::npos;
      EXPECT_EQ(has_digit, piece.source.has_value()) << sentence.about << ": " << piece.text;
      numbers += has_digit;
      if (!piece.source || piece.source->file.filename() != "summary.json") continue;
      const report::Run& run = *std::find_if(
          runs.begin(), runs.end(), [&](const report::Run& one) { return one.summary_file() == piece.source->file; });
      const std::string unit = piece.text.substr(std::min(piece.text.find(' '), piece.text.size()));
      const char* field = unit == " s" || unit == " ms" ? "\"epoch\"" : unit == " MB" ? "\"payload_sent\"" : "\"";
      EXPECT_NE(line_of(run.summary_text, piece.source->line).find(field), std::string::npos)
          << piece.text << ": " << line_of(run.summary_text, piece.source->line);
    }
  }
  EXPECT_GT(numbers, 9u);
}

TEST(Conclusions, WhatSeedsDoNotRankIsMeasuredAndNotRanked) {
  std::vector<report::Run> runs;
  add(runs, "ring", {10, 100, 80, 95, 5}, 0.4);
  add(runs, "ddp", {9.8, 100, 80, 95, 1}, 0.4);
  add(runs, "local-sgd", {5, 50, 80, 94.6, 1}, 0.4);
  add(runs, "fedavg", {5.2, 60, 80, 94.6, 1}, 0.4);
  const auto found = conclusions(cells(runs)).at(0);
  EXPECT_EQ(said(found.sentences, "time"),
            "local-sgd is fastest: 5.00 s an epoch, 2.0 times as fast as ring (10.0 s), and accuracy cannot be told "
            "apart (94.6 against 95.0 %); fedavg cannot be told apart from it.");
  runs.erase(runs.begin() + 6, runs.end());
  EXPECT_EQ(
      said(conclusions(cells(runs)).at(0).sentences, "time"),
      "ddp took least time: 9.80 s an epoch, 2 % less time than ring (10.0 s), but three seeds do not rank them.");
  EXPECT_EQ(said(conclusions(cells(runs)).at(0).sentences, "bytes"),
            "No way sends less than ring, whose busiest rank sends 100 MB an epoch; ddp sends as much.");
}

/// Twice the time in both seeds, beside a machine that slowed both ways in the second: intervals of means overlap.
TEST(Conclusions, WaysAreComparedSeedBySeed) {
  const std::vector<report::Run> runs{made("ring", 0, {4, 100, 80, 95, 2}), made("ring", 1, {7.6, 100, 80, 95, 2}),
                                      made("local-sgd", 0, {2, 50, 80, 95, 1}),
                                      made("local-sgd", 1, {3.76, 50, 80, 95, 1})};
  const auto found = conclusions(cells(runs)).at(0);
  EXPECT_EQ(
      said(found.sentences, "time"),
      "local-sgd is fastest: 2.88 s an epoch, 2.0 times as fast as ring (5.80 s), at the same accuracy (95.0 %).");
  ASSERT_TRUE(found.faster.contains("local-sgd"));
  EXPECT_NEAR(found.faster.at("local-sgd").effect, std::sqrt(2 * 7.6 / 3.76), 1e-9);
  EXPECT_TRUE(found.faster.at("local-sgd").is_ranked);
}

/// Two seeds that differ by too much to rank what is three times as fast in their mean.
TEST(Conclusions, NoSentenceDeniesWhatThePictureShows) {
  const std::vector<report::Run> runs{made("ring", 0, {4.4, 100, 80, 95, 2}), made("ring", 1, {7.24, 100, 80, 95, 2}),
                                      made("local-sgd", 0, {2.36, 50, 80, 95, 1}),
                                      made("local-sgd", 1, {1.4, 50, 80, 95, 1})};
  const auto found = conclusions(cells(runs)).at(0);
  EXPECT_EQ(said(found.sentences, "time"),
            "local-sgd took least time: 1.88 s an epoch, 3.1 times as fast as ring (5.82 s), but two seeds do not rank "
            "them, at the same accuracy (95.0 %).");
}

TEST(Conclusions, OneSeedRanksNothingThatIsMeasured) {
  std::vector<report::Run> runs{made("ring", 0, {10, 100, 80, 95, 5}), made("ddp", 0, {9.8, 100, 80, 95, 5}),
                                made("local-sgd", 0, {5, 50, 80, 93, 5})};
  const auto found = conclusions(cells(runs)).at(0);
  EXPECT_EQ(said(found.notes, "seeds"),
            "One seed each: what was measured is told, but nothing measured is ranked, since another run may turn it "
            "round; to rank ways, set seeds = 5 in the recipe.");
  EXPECT_EQ(said(found.sentences, "time"),
            "local-sgd took least time: 5.00 s an epoch, 2.0 times as fast as ring (10.0 s), but one seed ranks "
            "nothing; accuracy: 93.0 against 95.0 % (of one seed).");
  EXPECT_EQ(said(found.sentences, "bytes"),
            "local-sgd sends least: 50.0 MB an epoch from its busiest rank, 2.0 times fewer bytes than ring (100 MB); "
            "accuracy: 93.0 against 95.0 % (of one seed).")
      << "bytes are counted";
  EXPECT_EQ(said(found.sentences, "accuracy"),
            "local-sgd came to 93.0 % of the test set soonest, after 10.0 s of training: 2.0 times as fast as ring "
            "(20.0 s), but one seed ranks nothing.");
  runs[1] = made("ddp", 0, {12, 100, 80, 95, 5});
  runs.pop_back();
  EXPECT_EQ(said(conclusions(cells(runs)).at(0).sentences, "time"),
            "ring took least time: 10.0 s an epoch, but one seed ranks nothing.");
  for (report::Run& run : runs) run.summary.kind = "simulated";
  EXPECT_EQ(said(conclusions(cells(runs)).at(0).sentences, "time"),
            "No way is faster than ring, with 10.0 s an epoch; ddp takes 1.2 times as long.")
      << "virtual time is computed";
}

TEST(Conclusions, ATargetIsAboveWhatGuessingGets) {
  std::vector<report::Run> runs;
  add(runs, "ring", {10, 100, 9.6, 9.9, 5}, 0.05);
  add(runs, "ddp", {6, 100, 9.5, 9.8, 5}, 0.05);
  EXPECT_EQ(conclusions(cells(runs)).at(0).target, 9.5);
  for (report::Run& run : runs) run.guessing = {0.1, 0.12};
  const auto found = conclusions(cells(runs)).at(0);
  EXPECT_EQ(found.target, 0);
  EXPECT_EQ(said(found.sentences, "accuracy"), "");
  EXPECT_NE(said(found.sentences, "waiting"), "");
}

TEST(Conclusions, WhoDoesNotComeToTheTargetWinsNothingAndIsNamed) {
  std::vector<report::Run> runs;
  add(runs, "ring", {10, 100, 80, 95, 5}, 0.05);
  add(runs, "ddp", {6, 100, 80, 95, 5}, 0.05);
  add(runs, "diloco", {7, 50, 80, 95, 5}, 0.05);
  add(runs, "local-sgd", {1, 1, 9, 11, 0.1}, 0.05);
  const auto found = conclusions(cells(runs)).at(0);
  EXPECT_EQ(found.target, 94.5);
  EXPECT_EQ(said(found.sentences, "time"),
            "ddp is fastest of those that come to 94.5 % of the test set: 6.00 s an epoch, 1.7 times as fast as ring "
            "(10.0 s); local-sgd took less, but does not come to 94.5 % of the test set.");
  EXPECT_EQ(said(found.sentences, "bytes").substr(0, 69),
            "diloco sends least of those that come to 94.5 % of the test set: 50.0");
  EXPECT_NE(said(found.sentences, "accuracy").find("; local-sgd does not come to it."), std::string::npos)
      << said(found.sentences, "accuracy");
}

TEST(Conclusions, WithoutARingTheSlowestExactWayIsTheBaseline) {
  const std::vector<report::Run> runs{made("ddp", 0, {6, 100, 80, 95, 5}),
                                      made("gather-scatter", 0, {8, 100, 80, 95, 5}),
                                      made("local-sgd", 0, {9, 50, 80, 95, 5})};
  EXPECT_EQ(conclusions(cells(runs)).at(0).baseline, "gather-scatter");
}

TEST(Conclusions, OfOtherWorkersAreOfTheirOwn) {
  std::vector<report::Run> runs{made("ring", 0, {6, 100, 80, 95, 3}), made("ddp", 0, {3, 100, 80, 95, 1}),
                                made_run("single", 1, 0)};
  const auto found = conclusions(cells(runs));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(said(found[0].notes, "alone"),
            "One worker alone (single) takes 98.5 s an epoch; ddp on 2 workers takes 3.00 s, 33 times as fast; of one "
            "seed, this may be chance.");
  EXPECT_EQ(said(found[1].sentences, "run"),
            "single took 98.5 s an epoch, 2 % of it waiting for the exchange; its busiest rank sent 30.0 MB an epoch; "
            "it got 90.0 % of the test set right.");
  runs[1].settings["batch.global"] = "128";
  EXPECT_EQ(conclusions(cells(runs)).size(), 3u);

  const std::vector<report::Run> scaling{made_run("ring", 2, 0), made_run("ring", 4, 0)};
  EXPECT_EQ(said(conclusions(cells(scaling)).at(0).sentences, "scaling"),
            "ring on 4 workers trains 2.0 times as many images a second as on 2: an efficiency of 100 %; of one seed, "
            "this may be chance.");
}

TEST(Conclusions, WithoutAccuracyTheThirdIsOfWaiting) {
  std::vector<report::Run> runs{made("ring", 0, {10, 100, 80, 95, 5}), made("ddp", 0, {6, 100, 80, 95, 0.6})};
  for (report::Run& run : runs) {
    run.summary.kind = "replayed";
    run.summary.test.reset();
    for (Metrics& rank : run.ranks) {
      for (EpochLine& epoch : rank.epochs) epoch.test.reset();
    }
  }
  EXPECT_EQ(said(conclusions(cells(runs)).at(0).sentences, "waiting"),
            "ddp waited least for its exchange: 600 ms an epoch (10 % of it), where ring waited 5.00 s an epoch (50 % "
            "of it), but one seed ranks nothing.");
  for (report::Run& run : runs) run.summary.kind = "projected";
  EXPECT_EQ(said(conclusions(cells(runs)).at(0).sentences, "waiting"),
            "ddp waits least for its exchange: 600 ms an epoch (10 % of it), where ring waits 5.00 s an epoch (50 % of "
            "it).");
}

TEST(Conclusions, TheFastestOfThoseThatComeToTheTargetMayBeSlowerThanWhatItIsComparedWith) {
  const std::vector<report::Run> runs{made("ring", 0, {10, 100, 9, 11, 5}), made("ddp", 0, {18, 120, 80, 95, 5}),
                                      made("gather-scatter", 0, {20, 130, 80, 95, 5})};
  const auto found = conclusions(cells(runs)).at(0);
  EXPECT_EQ(said(found.sentences, "time"),
            "ddp took least time of those that come to 95.0 % of the test set: 18.0 s an epoch, but one seed ranks "
            "nothing; ring took less, but does not come to 95.0 % of the test set.");
  EXPECT_EQ(said(found.sentences, "bytes"),
            "ddp sends least of those that come to 95.0 % of the test set: 120 MB an epoch from its busiest rank; ring "
            "sent less, but does not come to 95.0 % of the test set.");
}

TEST(Conclusions, WaysOfOtherSettingsDoOtherArithmetic) {
  std::vector<report::Run> runs{made("ring", 0, {10, 100, 80, 95, 5}), made("ring", 0, {10, 100, 80, 60, 5}),
                                made("ddp", 0, {6, 100, 80, 95, 5})};
  for (std::size_t i : {0, 1, 2}) {
    runs[i].settings = {{"learning_rate.base", i == 1 ? "0.0001" : "0.05"},
                        {"exchange.overlap", i == 2 ? "\"backward\"" : "\"forward\""},
                        {"seed", std::to_string(i)}};
  }
  const auto all = cells(runs);
  EXPECT_EQ(names_of(all),
            (std::vector<std::string>{"ring, learning_rate.base 0.05", "ring, learning_rate.base 0.0001", "ddp"}));
  const auto found = conclusions(all).at(0);
  EXPECT_EQ(said(found.notes, "arithmetic"),
            "ring, learning_rate.base 0.05 and ddp do the same arithmetic: their accuracy is the same, 95.0 %, and "
            "they send as much; only time can differ.");
  runs[2].summary.seed = 1;
  EXPECT_EQ(said(conclusions(cells(runs)).at(0).notes, "arithmetic"), "") << "of other seeds";
}

TEST(Conclusions, OnlyWhatDiffersInItsWorkersAloneScales) {
  std::vector<report::Run> runs{made_run("ring", 2, 0), made_run("ring", 4, 0), made_run("ring", 4, 1)};
  runs[2].summary.images_per_second = 200;
  EXPECT_EQ(said(conclusions(cells(runs)).at(0).sentences, "scaling"),
            "ring on 4 workers trains 2.0 times as many images a second as on 2: an efficiency of 100 %; of one seed, "
            "this may be chance.")
      << "of the seed that both have";
  for (std::size_t i : {0, 1, 2}) runs[i].settings["transport.mbit_s"] = i == 0 ? "100.0" : "1000.0";
  EXPECT_EQ(said(conclusions(cells(runs)).at(0).sentences, "scaling"), "") << "over other links";
}

TEST(Conclusions, SayTheLink) {
  report::Run run = made_run("ring", 2, 0);
  EXPECT_EQ(link_of(run), "");
  run.summary.ranks[0].ways = {"", "shared memory"};
  EXPECT_EQ(link_of(run), "one machine, shared memory");
  run.settings = {{"transport.kind", "\"tcp\""}, {"transport.mbit_s", "100.0"}, {"transport.delay_ms", "5.0"}};
  EXPECT_EQ(link_of(run), "100 Mb/s a rank, 5 ms a message");
  run.settings = {
      {"transport.kind", "\"tcp\""}, {"lab.nodes", "3"}, {"lab.mbit_s", "2500.0"}, {"lab.slow", "[1.0, 4.0]"}};
  EXPECT_EQ(link_of(run), "3 emulated machines, 2500 Mb/s each");
  EXPECT_EQ(setting_in_words(run),
            "mnist-cnn on digits, 2 workers, batch 64, 2 epochs, 3 emulated machines, 2500 Mb/s each, compute [1.0, "
            "4.0] times as slow");
  run.settings = {{"transport.kind", "\"simulated\""}, {"simulated.mbit_s", "100.0"}, {"simulated.latency_us", "50.0"}};
  EXPECT_EQ(link_of(run), "100 Mb/s links, 50 µs, in virtual time");
  run.settings = {{"batch.global", "66"},
                  {"batch.per_worker", "0"}};  // as it was asked for, not as the first step came out
  EXPECT_TRUE(setting_in_words(run).starts_with("mnist-cnn on digits, 2 workers, batch 66, ")) << setting_in_words(run);
  run.settings = {{"batch.global", "0"}, {"batch.per_worker", "33"}};
  EXPECT_TRUE(setting_in_words(run).starts_with("mnist-cnn on digits, 2 workers, batch 33 a worker, "))
      << setting_in_words(run);
}

TEST(Ways, AnEpochThatTheRunsEndCutCountsAsItsPart) {
  report::Run run = made_run("ring", 2, 0);
  run.summary.epochs = 1.5;
  run.summary.seconds.epoch = {100, 50};
  const std::vector<report::Run> runs{run};
  EXPECT_EQ(epoch_seconds(cells(runs)[0])->middle, 100);
  EXPECT_EQ(busiest_bytes(cells(runs)[0])->middle, 60e6 / 1.5);
  EXPECT_EQ(from_json(to_json(run.summary), "summary.json").epochs, 1.5);
  EXPECT_NE(to_json(made_run("ring", 2, 0).summary).find("\"epochs\": 2,"), std::string::npos);
}

TEST(Ways, TimeToAccuracyIsOfTrainingAndNeedsAllSeeds) {
  std::vector<report::Run> runs{made("ring", 0, {10, 100, 80, 95, 5}), made("ring", 1, {12, 100, 96, 97, 5})};
  const auto both = cells(runs);
  EXPECT_EQ(seconds_to(both[0], 95)->middle, 16);  // 20 s, and 12 s
  EXPECT_FALSE(seconds_to(both[0], 96));
  EXPECT_EQ(reached_accuracy(both[0])->middle, 95);
  EXPECT_EQ(exposed_seconds(both[0])->middle, 5);
  EXPECT_FALSE(evaluation_bytes(both[0]));
  for (report::Run& run : runs) run.summary.evaluation_payload_sent = 800;
  EXPECT_EQ(evaluation_bytes(cells(runs)[0])->middle, 800);
}

}  // namespace
}  // namespace ripieno::report
