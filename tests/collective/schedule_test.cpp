#include <gtest/gtest.h>

#include "ripieno/collective/check.h"
#include "ripieno/collective/ring.h"
#include "ripieno/core/error.h"

namespace ripieno {
namespace {

TEST(Schedules, SumEveryRankOnceForEveryWorldSizeAndLength) {
  for (const Route& route : routes()) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t(ranks - 1), std::size_t(ranks),
                                         std::size_t{1000003}}) {
        ASSERT_NO_THROW(check_schedule(route, ranks, elements)) << route.name << " " << ranks << " " << elements;
      }
    }
  }
}

void expect_rejected(const Route& route, int ranks, const char* why) {
  try {
    check_schedule(route, ranks, 1000003);
    ADD_FAILURE() << "the checker accepts " << route.name;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(Schedules, CheckerRejectsAStepThatAddsTwice) {
  Route faulty = find_route("ring");
  faulty.name = "ring that starts over";
  faulty.step = [](int rank, int ranks, std::size_t elements, int k) {
    return ring::step(rank, ranks, elements, k == ranks - 2 ? 0 : k);  // the last reduce step repeats the first
  };
  for (int ranks = 3; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "twice");
}

TEST(Schedules, CheckerRejectsAForgottenStep) {
  Route faulty = find_route("halving-doubling");
  faulty.name = "halving-doubling without its last step";
  faulty.steps = [](int ranks) { return find_route("halving-doubling").steps(ranks) - 1; };
  for (int ranks = 2; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "ends without rank");
}

TEST(Schedules, CheckerRejectsEndsThatDisagree) {
  Route faulty = find_route("ring");
  faulty.step = [](int rank, int ranks, std::size_t elements, int k) {
    Step step = ring::step(rank, ranks, elements, k);
    if (rank == 1 && k == 0) step.receive->range.begin += 1;
    return step;
  };
  expect_rejected(faulty, 4, "receives [");
}

TEST(Schedules, CostsMatchTheClosedForms) {
  for (const Route& route : routes()) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t(ranks), std::size_t{1000003}}) {
        std::uint64_t sent = 0, received = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const ScheduleCost cost = schedule_cost(route, rank, ranks, elements);
          sent += cost.elements_sent;
          received += cost.elements_received;
        }
        // Whatever the route, each of P-1 buffers travels once to be added, and the sum once to each of P-1 ranks.
        EXPECT_EQ(sent, 2 * (ranks - 1) * elements) << route.name << " " << ranks;
        EXPECT_EQ(received, sent);
      }
    }
  }
  EXPECT_EQ(schedule_cost(find_route("ring"), 3, 8, 800).elements_sent, 2 * 7 * 100u);
  EXPECT_EQ(schedule_cost(find_route("halving-doubling"), 3, 8, 800).elements_sent, 2 * 7 * 100u);
  EXPECT_EQ(schedule_cost(find_route("gather-scatter"), 0, 8, 800).elements_sent, 7 * 800u);
  EXPECT_EQ(schedule_cost(find_route("gather-scatter"), 5, 8, 800).elements_sent, 800u);
  EXPECT_EQ(schedule_cost(find_route("reduce-broadcast"), 0, 8, 800).elements_sent, 3 * 800u);
  EXPECT_EQ(schedule_rounds(find_route("ring"), 8, 800), 14);
  EXPECT_EQ(schedule_rounds(find_route("halving-doubling"), 8, 800), 6);
  EXPECT_EQ(schedule_rounds(find_route("halving-doubling"), 9, 800), 8);
  EXPECT_EQ(schedule_rounds(find_route("reduce-broadcast"), 9, 800), 8);
  EXPECT_EQ(schedule_rounds(find_route("gather-scatter"), 9, 800), 16);
}

TEST(Schedules, UnknownRouteListsTheKnown) {
  try {
    find_route("rign");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("gather-scatter, reduce-broadcast, ring"), std::string::npos);
  }
}

}  // namespace
}  // namespace ripieno
