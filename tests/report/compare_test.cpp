#include "ripieno/report/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "ripieno/report/table.h"

namespace ripieno::report {
namespace {

Summary run(const std::string& name, int workers, double accuracy, double seconds, double exchange, double sent) {
  Summary s;
  s.name = name;
  s.strategy = name.substr(0, name.find('-'));
  s.codec = "fp32";
  s.model = "mnist-cnn";
  s.dataset = "digits";
  s.world_size = workers;
  s.epochs = 2;
  s.test = TestResult{accuracy, 3 * (1 - accuracy)};
  s.seconds.epoch = {seconds - 0.5, seconds + 0.5};
  s.seconds.stages = {1, 30, 50, exchange, 2, 0, 4};
  s.images_per_second = 10000 / seconds;
  s.exchange_payload_sent = static_cast<std::uint64_t>(sent * 1e6) * 2 * workers;
  s.closed_form_payload_sent = s.exchange_payload_sent / 2;
  return s;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

std::vector<Summary> several() {
  std::vector<Summary> all{run("single", 1, 0.981, 12, 0, 0)};
  for (int seed = 0; seed < 3; ++seed) {
    all.push_back(run("ring-fp32", 4, 0.98 + 0.001 * seed, 4.1 + 0.1 * seed, 17, 80.829));
    all.push_back(run("ring-fp16", 4, 0.978 + 0.002 * seed, 3.5 + 0.2 * seed, 9, 40.4145));
    all.back().codec = "fp16";
    for (std::size_t i = all.size() - 2; i < all.size(); ++i) all[i].seed = seed;
  }
  all.push_back(run("ps-async", 4, 0.95, 3.2, 5, 100.25));
  all.back().closed_form_payload_sent.reset();
  all.push_back(run("ring-workers64", 64, 0.5, 0.512, 400, 106.7));
  all.back().kind = "simulated";
  all.back().test.reset();
  return all;
}

TEST(Compare, OneRowANameWithItsInterval) {
  const auto table = lines(compare_table(several()));
  ASSERT_GE(table.size(), 8u);
  // Three lines of header and the rule come first; then the fastest.
  EXPECT_EQ(table[4].rfind("ring-workers64 ~", 0), 0u);
  EXPECT_EQ(table[5].rfind("ps-async ", 0), 0u);
  EXPECT_EQ(table[5].substr(table[5].size() - std::string("–").size()), "–") << table[5];
  EXPECT_EQ(table[6].rfind("ring-fp16 ", 0), 0u);
  EXPECT_EQ(table[7].rfind("ring-fp32 ", 0), 0u);
  EXPECT_EQ(table[8].rfind("single ", 0), 0u);
  // 98.0, 98.1, 98.2: deviation 0.1, so 4.303 * 0.1 / sqrt(3) = 0.25.
  EXPECT_NE(table[7].find(" 98.10 ± 0.25 "), std::string::npos) << table[7];
  EXPECT_NE(table[7].find(" 4.20 ± 0.25 "), std::string::npos) << table[7];
  // 1, 30, 50, 17, 2 of 100.
  EXPECT_NE(table[7].find("  1   30   50     17     2 "), std::string::npos) << table[7];
  // The same bytes for every seed: no interval.
  EXPECT_EQ(table[7].substr(table[7].size() - 4), "80.8") << table[7];
  EXPECT_NE(compare_table(several()).find("~ simulated"), std::string::npos);
  // A server on a rank of its own counts as well: bytes are divided by ranks, and the table says so.
  EXPECT_NE(compare_table(several()).find(
                "payload of the exchange in an epoch: by the rank that sends most, on average over all ranks"),
            std::string::npos);
}

TEST(Compare, HowManyTimesAsFastStandsBeside) {
  Conclusion one;
  one.baseline = "ring-fp32";
  one.faster["ring-fp16"] = {.seeds = 3, .is_ratio = true, .effect = 1.14, .is_ranked = true};
  one.faster["ps-async"] = {.seeds = 1, .is_ratio = true, .effect = 1.3};
  const std::string shown = compare_table(several(), {one});
  const auto table = lines(shown);
  EXPECT_NE(table[1].find("times"), std::string::npos);
  EXPECT_NE(table[5].find(" (1.30) "), std::string::npos) << table[5];
  EXPECT_NE(table[6].find(" 1.14 "), std::string::npos) << table[6];
  EXPECT_NE(shown.find("times as fast: as ring-fp32, by the time of an epoch, seed by seed; in brackets where"),
            std::string::npos)
      << shown;
  for (const std::string& line : table) EXPECT_LE(display_width(line), 140u) << line;
}

TEST(Compare, SaysWhereOnlyMpiKnowsWhatWasSent) {
  std::vector<Summary> runs{run("a", 2, 0.9, 1, 1, 1), run("b", 2, 0.9, 1, 1, 1)};
  runs[0].route = "ring";
  runs[1].route = "native";
  const std::string note = "along the route native it is not known what MPI sends";
  EXPECT_EQ(compare_table({runs[0]}).find(note), std::string::npos);
  const std::string table = compare_table(runs);
  EXPECT_NE(table.find(note), std::string::npos);
  EXPECT_NE(lines(table)[4].find("–     1.00     1.00"), std::string::npos) << table;
  EXPECT_NE(lines(table)[5].find("–        –     1.00"), std::string::npos) << table;
}

TEST(Compare, UnlikeRunsOfOneNameStayApart) {
  std::vector<Summary> runs{run("a", 2, 0.9, 1, 1, 1), run("a", 4, 0.9, 1, 1, 1)};
  EXPECT_EQ(lines(compare_table(runs))[4].substr(0, 2), "a ");
  EXPECT_EQ(lines(compare_table(runs))[5].substr(0, 2), "a ");
  EXPECT_EQ(compare_table(runs).find("±"), std::string::npos);
  EXPECT_EQ(compare_table(runs).find("seeds"), std::string::npos);
}

TEST(Compare, FitsIn140Columns) {
  auto runs = several();
  for (int seed = 0; seed < 2; ++seed) {
    runs.push_back(run("hierarchical-workers4096-momentum0.9-one-cycle-powersgd-bf16-with-more", 4096, 0.1, 1234.567, 3,
                       12345.678));
    runs.back().images_per_second = 987654.3;
    runs.back().seed = seed;
  }
  for (const std::string& line : lines(compare_table(runs))) EXPECT_LE(display_width(line), 140u) << line;
  EXPECT_NE(compare_table(runs).find("…"), std::string::npos);
}

TEST(Compare, RepeatsOfASeedAreNoSeeds) {
  std::vector<Summary> runs(3, run("ring", 2, 0.9, 1, 1, 1));
  runs[1].images_per_second *= 2;
  const std::string once = compare_table(runs);
  EXPECT_EQ(once.find("±"), std::string::npos) << once;
  EXPECT_EQ(lines(once)[4].substr(0, 20).find('3'), std::string::npos) << once;
  EXPECT_NE(once.find("ring: 3 runs of 1 seed; a seed's repeats count once"), std::string::npos) << once;
  runs[2].seed = 1;
  runs[2].test->accuracy = 0.8;
  const std::string twice = compare_table(runs);
  // 90 and 80, each once: 12.706 * 7.071 / sqrt(2).
  EXPECT_NE(twice.find("85.00 ± 63.53"), std::string::npos) << twice;
  EXPECT_NE(twice.find("3 runs of 2 seeds"), std::string::npos) << twice;
}

TEST(Compare, TellsWhatTheBusiestRankSends) {
  std::vector<Summary> runs{run("gather-scatter", 4, 0.9, 1, 1, 30), run("ring", 4, 0.9, 1, 1, 30)};
  for (std::size_t i = 0; i < 2; ++i) {
    for (int rank = 0; rank < 4; ++rank) {
      RankSummary own;
      own.rank = rank;
      own.exchange_payload_sent = i == 1 ? 60'000'000 : rank == 0 ? 120'000'000 : 40'000'000;
      runs[i].ranks.push_back(own);
    }
  }
  const auto table = lines(compare_table(runs));
  EXPECT_NE(table[4].find("60.0     30.0     30.0"), std::string::npos) << table[4];
  EXPECT_NE(table[5].find("30.0     30.0     30.0"), std::string::npos) << table[5];
}

TEST(Compare, TellsOfALossThatIsNotFinite) {
  Summary one = run("ring", 2, 0.1, 1, 1, 1);
  one.test->loss = std::nan("");
  one.not_finite = NotFinite{1, "training loss", "inf", 12, 0};
  const std::string table = compare_table({one});
  EXPECT_NE(table.find("ring, seed 0: the training loss of rank 1 was inf at step 12, in epoch 1"), std::string::npos)
      << table;
  EXPECT_NE(lines(table)[4].find("nan"), std::string::npos) << table;
}

TEST(Compare, BareRuns) {
  EXPECT_EQ(compare_table({}), "no runs to compare\n");
  Summary empty;
  empty.name = "nothing";
  empty.world_size = 1;
  empty.test = TestResult{0.1, std::nan("")};
  const std::string table = compare_table({empty});
  EXPECT_NE(lines(table)[4].find("nan"), std::string::npos) << table;
  EXPECT_NE(lines(table)[4].find("–"), std::string::npos) << table;
}

}  // namespace
}  // namespace ripieno::report
