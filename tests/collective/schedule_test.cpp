#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "ripieno/collective/check.h"
#include "ripieno/collective/closed_form.h"
#include "ripieno/collective/ring.h"
#include "ripieno/core/error.h"
#include "tests/collective/worlds.h"

namespace ripieno::collective {
namespace {

using testing::worlds;

TEST(Schedules, KeepWhatTheirCollectivePromisesForEveryWorldAndLength) {
  for (const transport::Collective collective : collectives) {
    for (const Route& route : routes(collective)) {
      EXPECT_EQ(route.collective, collective) << route.name;
      for (int ranks = 1; ranks <= 64; ++ranks) {
        for (const std::size_t elements :
             {std::size_t{0}, std::size_t{1}, std::size_t(ranks - 1), std::size_t(ranks), std::size_t{1000003}}) {
          for (const World world : worlds(route, ranks)) {
            ASSERT_NO_THROW(check_schedule(route, world, elements))
                << transport::name(collective) << " " << route.name << " " << ranks << " (" << world.per_node
                << " a node, root " << world.root << ") " << elements;
          }
        }
      }
    }
  }
}

TEST(DoubleBinaryTree, NoRankIsInteriorInBothTreesAndBothAreBinary) {
  const Route& route = find_route("double-binary-tree");
  constexpr std::size_t elements = 1000;
  for (int ranks = 1; ranks <= 300; ++ranks) {
    std::size_t roots = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      int children[2] = {0, 0}, parents[2] = {0, 0};
      for (int k = 0; k < route.steps(ranks); ++k) {
        const Step step = route.step(rank, ranks, elements, k);
        for (const Transfer& in : step.receives) children[in.range.begin > 0] += in.how == numeric::Reduce::add;
        for (const Transfer& out : step.sends) parents[out.range.begin > 0] += out.how == numeric::Reduce::add;
      }
      EXPECT_TRUE(children[0] == 0 || children[1] == 0) << "P=" << ranks << " rank " << rank;
      EXPECT_LE(children[0] + children[1], 2) << "P=" << ranks << " rank " << rank;
      EXPECT_LE(std::max(parents[0], parents[1]), 1);
      roots += (parents[0] == 0) + (parents[1] == 0);
    }
    EXPECT_EQ(roots, 2u) << "P=" << ranks;
  }
}

TEST(Schedules, CostsMatchTheClosedForms) {
  for (const Route& route : routes()) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t(ranks), std::size_t{1000003}}) {
        for (const World world : worlds(route, ranks)) {
          std::uint64_t sent = 0, received = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            const ScheduleCost cost = schedule_cost(route, rank, world, elements);
            sent += cost.elements_sent;
            received += cost.elements_received;
          }
          // Each of P-1 buffers travels once to be added, and the sum once to each of P-1 ranks; in one round, each of
          // P buffers goes to P-1 ranks.
          EXPECT_EQ(sent, (route.name == "direct" ? ranks : 2) * (ranks - 1) * elements) << route.name << " " << ranks;
          EXPECT_EQ(received, sent);
        }
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
  EXPECT_EQ(schedule_rounds(find_route("leader-ring"), 9, 800), 16);
}

TEST(Schedules, CostsOfTheNewerRoutesMatchTheirs) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    const unsigned p = static_cast<unsigned>(ranks);
    EXPECT_EQ(schedule_rounds(find_route("direct"), ranks, 800), 1);
    EXPECT_EQ(schedule_rounds(find_route("direct"), ranks, 0), 0);
    EXPECT_EQ(schedule_rounds(find_route("double-binary-tree"), ranks, 800),
              2 * (std::bit_width(p) - 1 + std::bit_width(p - 1) - 1));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(schedule_cost(find_route("direct"), rank, ranks, 800),
                (ScheduleCost{800u * (p - 1), 800u * (p - 1), p - 1, p - 1}));
      EXPECT_EQ(schedule_cost(find_route("leader-ring"), rank, ranks, 800).elements_sent,
                ranks == 2 || rank == 0 || rank == ranks - 1 ? 800u : 1600u);
      EXPECT_LE(schedule_cost(find_route("double-binary-tree"), rank, ranks, 800).elements_sent, 1600u);
    }
    for (const World world : worlds(find_route("hierarchical"), ranks)) {
      const Route& route = find_route("hierarchical");
      const unsigned nodes = static_cast<unsigned>(world.nodes());
      const int fullest = std::min(world.per_node, ranks);
      const int levels = std::bit_width(static_cast<unsigned>(fullest - 1));
      EXPECT_EQ(schedule_rounds(route, world, 6400 * nodes), 2 * levels + 2 * (world.nodes() - 1));
      EXPECT_EQ(schedule_cost(route, 0, world, 6400 * nodes).elements_sent,
                6400u * (nodes * static_cast<unsigned>(levels) + 2 * (nodes - 1)));
      std::uint64_t between = 0;  // what leaves its node
      for (int rank = 0; rank < ranks; ++rank) {
        for (int k = 0; k < route.steps(world); ++k) {
          const Step step = route.step(rank, world, 6400 * nodes, k);
          for (const Transfer& out : step.sends) {
            if (out.peer / world.per_node != rank / world.per_node) between += out.range.size();
          }
        }
      }
      EXPECT_EQ(between, 2 * 6400 * nodes * (nodes - 1)) << ranks << " ranks, " << world.per_node << " a node";
    }
  }
}

TEST(Schedules, TheFormsThatAreShownComeToWhatIsWalkedForEveryWorld) {
  for (const transport::Collective collective : collectives) {
    for (const Route& route : routes(collective)) {
      for (int ranks = 1; ranks <= 33; ++ranks) {
        for (const World world : worlds(route, ranks)) {
          const std::size_t elements = std::size_t{32} * static_cast<std::size_t>(ranks * world.nodes());
          std::uint64_t busiest = 0;
          for (int rank = 0; rank < ranks; ++rank)
            busiest = std::max(busiest, schedule_cost(route, rank, world, elements).elements_sent);
          const double n = static_cast<double>(elements);
          const std::string where =
              text(transport::name(collective), " ", route.name, ", ", ranks, " ranks, root ", world.root, ": ");
          EXPECT_DOUBLE_EQ(closed_form(route.bytes, world, n), static_cast<double>(busiest)) << where << route.bytes;
          EXPECT_EQ(closed_form(route.rounds, world, n), schedule_rounds(route, world, elements))
              << where << route.rounds;
        }
      }
    }
  }
}

TEST(ClosedForm, IsReadAsPeopleDo) {
  const World world{6, 4};
  EXPECT_EQ(closed_form("2n(P-1)/P", world, 12), 20);
  EXPECT_EQ(closed_form("2 ceil(log2 P) - floor(log2 M) * min(P, 3)", world, 0), 0);
  EXPECT_EQ(closed_form("P - Q - 1", world, 0), 1);
  EXPECT_EQ(letters_of("2n(Q-1)/Q + N", world), "Q = 4, N = 2");
  EXPECT_EQ(letters_of("n(P-1)", world), "");
  for (const char* wrong : {"", "2(P", "2n +", "min(1)", "x", "2)"})
    EXPECT_THROW(closed_form(wrong, world, 1), Error) << wrong;
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
}  // namespace ripieno::collective
