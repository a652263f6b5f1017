#include "ripieno/transport/waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ripieno/core/random.h"

namespace ripieno::transport {
namespace {

using Ranks = std::vector<int>;

Waits on(Ranks ranks) { return ranks; }
const Waits silent = std::nullopt;

struct Case {
  int rank;
  std::vector<Waits> waits;
  Ranks culprits;
  std::string known;
};

TEST(FindHang, FollowsChainsToTheirEnd) {
  const std::string stuck = " for nobody: busy, or stuck, outside of exchanges";
  const Case cases[]{
      {0, {on({1}), silent}, {1}, "rank 0 waits for 1, 1 does not answer"},
      {0, {on({1}), on({2}), silent}, {2}, "rank 0 waits for 1, 1 for 2, 2 does not answer"},
      // A ring: each waits for the one before it.
      {0, {on({3}), on({0}), silent, on({2})}, {2}, "rank 0 waits for 3, 3 for 2, 2 does not answer"},
      {1, {on({3}), on({0}), silent, on({2})}, {2}, "rank 1 waits for 0, 0 for 3, 3 for 2, 2 does not answer"},
      // A server that waits for all its workers, who wait for it.
      {3, {on({1, 2, 3}), on({0}), silent, on({0})}, {2}, "rank 3 waits for 0, 0 for 2, 2 does not answer"},
      // Several, and one that nobody waits for.
      {0, {on({1, 2}), silent, silent, silent}, {1, 2}, "rank 0 waits for 1, 1 and 2 do not answer"},
      // All answer: the ends of the chains.
      {0, {on({1}), on({2}), on({})}, {2}, "rank 0 waits for 1, 1 for 2, 2" + stuck},
      {0, {on({1, 2}), on({}), silent}, {2}, "rank 0 waits for 2, 2 does not answer"},
      // Ranks that wait for each other.
      {0, {on({1}), on({0})}, {}, "they wait for each other: rank 0 waits for 1, 1 for 0"},
      {0, {on({1}), on({2}), on({0, 1})}, {}, "they wait for each other: rank 0 waits for 1, 1 for 2, 2 for 0 and 1"},
      // What outside says need not be true.
      {0, {on({1}), on({-1, 7, 1})}, {1}, "rank 0 waits for 1, 1" + stuck},
  };
  for (const Case& one : cases) {
    const Hang hang = find_hang(one.rank, one.waits);
    EXPECT_EQ(hang.culprits, one.culprits) << one.known;
    EXPECT_EQ(hang.known, one.known);
  }
}

TEST(FindHang, ItsErrorNamesTheCulpritsFirst) {
  const auto words = [](const Hang& hang) {
    return std::string(gave_up_because_of(hang, 0, std::chrono::seconds(3), "waiting for ring").what());
  };
  EXPECT_EQ(words({{2}, "rank 0 waits for 1, 1 for 2, 2 does not answer"}),
            "rank 0: gave up on rank 2 after 3 s of waiting for ring: rank 0 waits for 1, 1 for 2, 2 does not answer");
  EXPECT_EQ(words({{1, 2}, ""}), "rank 0: gave up on rank 1 and rank 2 after 3 s of waiting for ring");
  EXPECT_EQ(words({{}, "they wait for each other"}),
            "rank 0: gave up after 3 s of waiting for ring: they wait for each other");
}

/// Ranks reachable from `rank`, by another algorithm than the one tested: sets that grow.
std::set<int> reachable(int rank, const std::vector<Waits>& waits) {
  std::set<int> reached{rank};
  for (std::size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const int from : std::set<int>(reached)) {
      for (const int to : waits[static_cast<std::size_t>(from)].value_or(Ranks())) reached.insert(to);
    }
  }
  reached.erase(rank);
  return reached;
}

TEST(FindHang, OfRandomWaitsBlamesAllThatAreReachedAndNoOther) {
  Random random(7, 0);
  for (int round = 0; round < 3000; ++round) {
    const int ranks = 2 + static_cast<int>(random.below(9));
    std::vector<Waits> waits(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank > 0 && random.below(4) == 0) continue;  // silent
      waits[static_cast<std::size_t>(rank)].emplace();
      for (int other = 0; other < ranks; ++other) {
        if (other != rank && random.below(static_cast<std::uint64_t>(ranks)) == 0)
          waits[static_cast<std::size_t>(rank)]->push_back(other);
      }
    }
    Ranks quiet, ends;
    for (const int rank : reachable(0, waits)) {
      const Waits& its = waits[static_cast<std::size_t>(rank)];
      if (!its) quiet.push_back(rank);
      if (its && its->empty()) ends.push_back(rank);
    }
    const Hang hang = find_hang(0, waits);
    EXPECT_EQ(hang.culprits, quiet.empty() ? ends : quiet);
    EXPECT_FALSE(hang.known.empty());

    // Other numbers, the same ranks.
    Ranks named(static_cast<std::size_t>(ranks));
    std::iota(named.begin(), named.end(), 0);
    std::reverse(named.begin(), named.end());
    std::vector<Waits> renamed(waits.size());
    for (std::size_t rank = 0; rank < waits.size(); ++rank) {
      Waits& its = renamed[static_cast<std::size_t>(named[rank])];
      its = waits[rank];
      if (its)
        std::transform(its->begin(), its->end(), its->begin(),
                       [&](int other) { return named[static_cast<std::size_t>(other)]; });
    }
    Ranks expected = hang.culprits;
    std::transform(expected.begin(), expected.end(), expected.begin(),
                   [&](int rank) { return named[static_cast<std::size_t>(rank)]; });
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(find_hang(named[0], renamed).culprits, expected);
  }
}

TEST(FindHang, ManyRanksFitOneLine) {
  std::vector<Waits> waits(1000);
  for (int rank = 0; rank < 999; ++rank) waits[static_cast<std::size_t>(rank)] = on({rank + 1});
  EXPECT_LT(find_hang(0, waits).known.size(), 200u);
  waits.assign(1000, silent);
  waits[0].emplace();
  for (int rank = 1; rank < 1000; ++rank) waits[0]->push_back(rank);
  EXPECT_EQ(find_hang(0, waits).known, "rank 0 waits for 1, 1, 2, 3, 4, 5, 6, 7, 8 and 991 more do not answer");
}

}  // namespace
}  // namespace ripieno::transport
