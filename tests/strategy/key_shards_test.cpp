#include "ripieno/strategy/key_shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ripieno/core/random.h"

namespace ripieno::strategy {
namespace {

struct Model {
  std::vector<Range> keys;
  std::size_t elements = 0;
  void add(std::size_t size) {
    keys.push_back({elements, elements + size});
    elements += size;
  }
};

/// Sizes over five orders of magnitude, as of weights and biases; some keys are empty.
Model random_model(Random& random) {
  Model model;
  model.add(1 + random.below(8));
  for (std::uint64_t left = random.below(12); left > 0; --left) {
    model.add(random.below(std::uint64_t{1} << random.below(17)));
  }
  return model;
}

TEST(KeyShards, ArePartitionsAndBalanced) {
  Random random(1);
  for (int round = 0; round < 1000; ++round) {
    const Model model = random_model(random);
    const int most = static_cast<int>(std::min<std::size_t>(model.elements, 9));
    const int count = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most)));
    const KeyShards shards(model.keys, model.elements, count);
    std::vector<int> holders(model.elements, 0);
    std::size_t largest = 0, heaviest = 0;
    for (const Range& key : model.keys) largest = std::max(largest, key.size());
    for (int s = 0; s < count; ++s) {
      std::size_t end = 0;
      for (const Range& range : shards.ranges(s)) {
        EXPECT_LT(range.begin, range.end);
        EXPECT_TRUE(end == 0 || range.begin > end) << "ascending and apart";
        end = range.end;
        for (std::size_t i = range.begin; i < range.end; ++i) ++holders[i];
      }
      EXPECT_GE(shards.size(s), 1u);
      heaviest = std::max(heaviest, shards.size(s));
    }
    EXPECT_TRUE(std::all_of(holders.begin(), holders.end(), [](int n) { return n == 1; })) << "round " << round;
    const std::size_t even = (model.elements + count - 1) / count;
    EXPECT_LE(heaviest, even + std::min(even, largest)) << model.elements << " numbers, " << count << " shards";
  }
}

TEST(KeyShards, CutsOnlyWhatIsLargerThanAnEvenShare) {
  const KeyShards whole({{0, 40}, {40, 70}, {70, 100}, {100, 110}}, 110, 2);
  EXPECT_EQ(whole.ranges(0), (std::vector<Range>{{0, 40}, {100, 110}}));
  EXPECT_EQ(whole.ranges(1), (std::vector<Range>{{40, 100}}));
  const KeyShards cut({{0, 90}, {90, 100}}, 100, 4);  // 90 numbers in four pieces of 22 or 23
  for (int s = 0; s < 4; ++s) EXPECT_NEAR(static_cast<double>(cut.size(s)), 25, 8);
  const KeyShards tiny({{0, 2}, {2, 4}}, 4, 3);  // two keys, three shards
  EXPECT_EQ(tiny.size(0) + tiny.size(1) + tiny.size(2), 4u);
}

TEST(KeyShards, GatherAndScatterAreInverse) {
  Random random(2);
  for (int round = 0; round < 50; ++round) {
    const Model model = random_model(random);
    const KeyShards shards(model.keys, model.elements, static_cast<int>(std::min<std::size_t>(model.elements, 4)));
    std::vector<double> flat(model.elements), back(model.elements, -1);
    std::iota(flat.begin(), flat.end(), 0.0);
    for (int s = 0; s < shards.count(); ++s) {
      std::vector<double> compact(shards.size(s));
      shards.gather(s, NumberSpan(compact), NumberSpan(flat));
      EXPECT_TRUE(std::is_sorted(compact.begin(), compact.end()));
      shards.scatter(s, NumberSpan(back), NumberSpan(compact));
    }
    EXPECT_EQ(back, flat);
  }
}

TEST(KeyShards, RefusesMoreShardsThanNumbersAndKeysThatOverlap) {
  EXPECT_THROW(KeyShards({{0, 3}}, 3, 4), Error);
  EXPECT_THROW(KeyShards({{0, 3}}, 3, 0), Error);
  EXPECT_THROW(KeyShards({{0, 3}, {2, 5}}, 5, 2), Error);
  EXPECT_THROW(KeyShards({{0, 3}, {4, 5}}, 5, 2), Error);
}

}  // namespace
}  // namespace ripieno::strategy
