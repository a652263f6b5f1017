#include "ripieno/collective/rounds.h"

#include <gtest/gtest.h>

#include "ripieno/collective/check.h"
#include "ripieno/core/error.h"
#include "tests/collective/worlds.h"

namespace ripieno::collective {
namespace {

using testing::worlds;

TEST(ScheduleRounds, EndWithAllContributionsEverywhereForEveryRoute) {
  for (const Route& route : routes()) {
    for (int ranks = 1; ranks <= 12; ++ranks) {
      for (const std::size_t elements : {std::size_t{1}, std::size_t(ranks), std::size_t{1003}}) {
        for (const World world : worlds(route, ranks)) {
          const ScheduleRounds all = schedule_rounds_of(route, world, elements);
          const RankSet everyone = (RankSet{1} << ranks) - 1;
          ASSERT_EQ(all.rounds.size(), static_cast<std::size_t>(schedule_rounds(route, world, elements)))
              << route.name << " " << ranks;
          ASSERT_EQ(all.held.size(), all.rounds.size() + 1);
          for (int rank = 0; rank < ranks; ++rank) {
            for (const RankSet start : all.held.front()[rank]) ASSERT_EQ(start, RankSet{1} << rank);
            for (const RankSet end : all.held.back()[rank])
              ASSERT_EQ(end, everyone) << route.name << " " << ranks << " rank " << rank;
          }
        }
      }
    }
  }
}

TEST(ScheduleRounds, CellsAreTheBufferAndTransfersAreWhatIsSent) {
  for (const Route& route : routes()) {
    for (int ranks = 1; ranks <= 12; ++ranks) {
      for (const World world : worlds(route, ranks)) {
        const ScheduleRounds all = schedule_rounds_of(route, world, 1003);
        std::size_t end = 0;
        for (const Range cell : all.cells) {
          ASSERT_EQ(cell.begin, end);
          ASSERT_GT(cell.size(), 0u);
          end = cell.end;
        }
        ASSERT_EQ(end, 1003u);
        std::vector<std::uint64_t> sent(static_cast<std::size_t>(ranks));
        for (const auto& round : all.rounds) {
          for (const RoundTransfer& one : round) sent[static_cast<std::size_t>(one.from)] += one.range.size();
        }
        for (int rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(sent[static_cast<std::size_t>(rank)], schedule_cost(route, rank, world, 1003).elements_sent);
      }
    }
  }
}

TEST(ScheduleRounds, OfARingOfThree) {
  const ScheduleRounds all = schedule_rounds_of(find_route("ring"), 3, 6);
  ASSERT_EQ(all.rounds.size(), 4u);
  const auto& [from, to, range, into, how] = all.rounds[0][0];
  EXPECT_EQ(from, 0);
  EXPECT_EQ(to, 1);
  EXPECT_EQ(range, (Range{0, 2}));
  EXPECT_EQ(into, range);
  EXPECT_EQ(how, numeric::Reduce::add);
  EXPECT_EQ(all.held[1][1], (std::vector<RankSet>{0b011, 0b010, 0b010}));
  EXPECT_EQ(all.held[2][2], (std::vector<RankSet>{0b111, 0b110, 0b100}));
  EXPECT_EQ(all.rounds[2][0].how, numeric::Reduce::replace);
}

TEST(ScheduleRounds, OfDirectAreOne) {
  const ScheduleRounds all = schedule_rounds_of(find_route("direct"), 4, 10);
  ASSERT_EQ(all.rounds.size(), 1u);
  EXPECT_EQ(all.rounds[0].size(), 12u);
}

TEST(ScheduleRounds, OfMoreRanksThanASetHoldsAreRefused) {
  EXPECT_THROW(schedule_rounds_of(find_route("ring"), 65, 100), Error);
}

}  // namespace
}  // namespace ripieno::collective
