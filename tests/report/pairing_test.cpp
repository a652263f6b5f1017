#include "ripieno/report/pairing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ripieno/core/error.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

Estimate of(const std::vector<SeedNumber>& seeds) {
  const std::vector<double> numbers = numbers_of(seeds);
  return {mean(numbers), interval95(numbers), numbers.size(), {}, seeds};
}

TEST(Pairing, ComparesOnlySeedsThatBothHave) {
  const Paired pair = paired(of({{0, 4}, {1, 8}, {7, 1000}}), of({{1, 4}, {0, 2}, {5, 1}}), By::ratio);
  EXPECT_EQ(pair.seeds, 2u);
  EXPECT_TRUE(pair.is_ratio);
  EXPECT_DOUBLE_EQ(pair.effect, 2);
  EXPECT_EQ(pair.p, 0) << "twice in both seeds";
  EXPECT_TRUE(pair.is_ranked);
  const Paired difference = paired(of({{0, 4}, {1, 8}}), of({{0, 2}, {1, 4}}), By::difference);
  EXPECT_FALSE(difference.is_ratio);
  EXPECT_DOUBLE_EQ(difference.effect, 3);
}

TEST(Pairing, OneSeedOrNoneInCommonRanksNothing) {
  for (const auto& [b, seeds] : {std::pair(of({{0, 100}}), 1u), {of({{5, 100}, {6, 100}}), 0u}}) {
    const Paired pair = paired(of({{0, 1}, {1, 1}}), b, By::ratio);
    EXPECT_EQ(pair.seeds, seeds);
    EXPECT_EQ(pair.p, 1);
    EXPECT_FALSE(pair.is_ranked);
    EXPECT_DOUBLE_EQ(pair.effect, 0.01) << "which is told all the same";
  }
}

TEST(Pairing, ANumberThatIsNotAboveZeroIsComparedByDifferences) {
  const Paired pair = paired(of({{0, 0}, {1, 4}}), of({{0, 2}, {1, 4}}), By::ratio);
  EXPECT_FALSE(pair.is_ratio);
  EXPECT_DOUBLE_EQ(pair.effect, -1);
}

/// Three seeds that share most of their noise, as runs of one seed do: a paired test sees what overlapping intervals of
/// the means do not.
TEST(Pairing, SeesDifferencesThatSeedsShareNoiseOf) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int found = 0, overlapping = 0, wrong = 0;
  constexpr int experiments = 1000;
  for (int i = 0; i < experiments; ++i) {
    std::vector<SeedNumber> a, better, same;
    for (int seed = 0; seed < 3; ++seed) {
      const double shared = 90 + normal(random);
      a.emplace_back(seed, shared + 0.1 * normal(random));
      better.emplace_back(seed, shared + 0.8 + 0.1 * normal(random));
      same.emplace_back(seed, shared + 0.1 * normal(random));
    }
    found += paired(of(a), of(better), By::difference).is_ranked;
    wrong += paired(of(a), of(same), By::difference).is_ranked;
    overlapping += of(better).middle - of(a).middle > of(a).half + of(better).half;
  }
  EXPECT_GT(found, 0.8 * experiments);
  EXPECT_LT(overlapping, 0.1 * experiments) << "what intervals that do not overlap would find";
  EXPECT_NEAR(wrong, 0.05 * experiments, 0.03 * experiments);
}

TEST(Pairing, AllPairsOfOneSentenceTogetherAreRarelyWrong) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  int wrong = 0;
  constexpr int experiments = 1000;
  for (int i = 0; i < experiments; ++i) {
    std::vector<Estimate> ways(9);
    for (Estimate& way : ways) {
      std::vector<SeedNumber> seeds;
      for (int seed = 0; seed < 4; ++seed) seeds.emplace_back(seed, 10 + 0.1 * normal(random));
      way = of(seeds);
    }
    Pairs pairs(By::ratio);
    for (std::size_t a = 1; a < ways.size(); ++a) pairs.add(0, ways[0], a, ways[a]);
    pairs.correct();
    EXPECT_EQ(pairs.tested(), 8u);
    for (std::size_t a = 1; a < ways.size(); ++a) {
      if (!pairs.between(a, 0).is_ranked) continue;
      ++wrong;
      break;
    }
  }
  EXPECT_LT(wrong, 0.07 * experiments) << "one pair in twenty would come to 30 %";
}

TEST(Pairing, OneSeedOfACountRanks) {
  Pairs counted(By::ratio, true), measured(By::ratio);
  for (Pairs* pairs : {&counted, &measured}) {
    pairs->add(0, of({{0, 10}}), 1, of({{0, 20}}));
    pairs->add(1, of({{0, 20}}), 0, of({{0, 10}}));  // again
    pairs->add(0, of({{0, 10}}), 2, of({{0, 10}}));
    pairs->correct();
    EXPECT_EQ(pairs->tested(), 0u);
    EXPECT_DOUBLE_EQ(pairs->between(1, 0).effect, 2);
    EXPECT_DOUBLE_EQ(pairs->between(0, 1).effect, 0.5);
    EXPECT_THROW(pairs->between(1, 2), Error);
  }
  EXPECT_TRUE(counted.between(0, 1).is_ranked);
  EXPECT_FALSE(counted.between(0, 2).is_ranked) << "the same";
  EXPECT_FALSE(measured.between(0, 1).is_ranked);
}

}  // namespace
}  // namespace ripieno::report
