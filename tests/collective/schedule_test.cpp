#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "ripieno/collective/bruck.h"
#include "ripieno/collective/check.h"
#include "ripieno/collective/closed_form.h"
#include "ripieno/collective/direct.h"
#include "ripieno/collective/double_binary_tree.h"
#include "ripieno/collective/flat.h"
#include "ripieno/collective/hierarchical.h"
#include "ripieno/collective/pairwise.h"
#include "ripieno/collective/ring.h"
#include "ripieno/collective/tree.h"
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

void expect_rejected(const Route& route, World world, const char* why) {
  try {
    check_schedule(route, world, 1000003);
    ADD_FAILURE() << "the checker accepts " << route.name << " for " << world.ranks << " ranks";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(Schedules, CheckerRejectsAStepThatAddsTwice) {
  Route faulty = find_route("ring");
  faulty.name = "ring that starts over";
  faulty.step = [](int rank, World world, std::size_t elements, int k) {
    return ring::step(rank, world, elements, k == world.ranks - 2 ? 0 : k);  // the last reduce step repeats the first
  };
  for (int ranks = 3; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "twice");
}

TEST(Schedules, CheckerRejectsAForgottenStep) {
  Route faulty = find_route("halving-doubling");
  faulty.name = "halving-doubling without its last step";
  faulty.steps = [](World world) { return find_route("halving-doubling").steps(world) - 1; };
  for (int ranks = 2; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "ends without rank");
}

TEST(Schedules, CheckerRejectsEndsThatDisagree) {
  Route faulty = find_route("ring");
  faulty.step = [](int rank, World world, std::size_t elements, int k) {
    Step step = ring::step(rank, world, elements, k);
    if (rank == 1 && k == 0) step.receives[0].range.begin += 1;
    return step;
  };
  expect_rejected(faulty, 4, "receives [");
}

TEST(Schedules, CheckerKnowsThatAStepSendsWhatWasThereBefore) {
  Route faulty = find_route("direct");
  faulty.steps = [](World world) {
    return world.ranks - 1;
  };  // one after the other: a rank's second send carries the first sum too
  faulty.step = [](int rank, World world, std::size_t elements, int k) {
    const Step all = direct::step(rank, world, elements, 0);
    const auto i = static_cast<std::size_t>(k);
    return Step{all.sends[i], all.receives[i]};
  };
  for (int ranks = 3; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "twice");
  faulty.step = [](int rank, World world, std::size_t elements, int) {  // of two parts, not of all that is sent
    Step all = direct::step(rank, world, elements, 0);
    for (Transfers* one : {&all.sends, &all.receives}) {
      Transfers halves;
      for (const Transfer& whole : *one) {
        halves.push_back({whole.peer, {0, elements / 2 + 1}, numeric::Reduce::add});
        halves.push_back({whole.peer, {elements / 2, elements}, numeric::Reduce::add});
      }
      *one = halves;
    }
    return all;
  };
  faulty.steps = direct::steps;
  for (int ranks = 2; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "to what it sends");
}

TEST(Schedules, CheckerRejectsAddsThatTheExecutorCannotKeepApart) {
  // Two halves that do not meet: the sums of what a step sends are made from copies of one range.
  Route halves = find_route("direct");
  halves.step = [](int rank, World world, std::size_t elements, int) {
    const Step whole = direct::step(rank, world, elements, 0);
    Step step;
    for (const auto& [from, to] : {std::pair(&whole.sends, &step.sends), {&whole.receives, &step.receives}}) {
      for (const Transfer& one : *from) {
        to->push_back({one.peer, {0, elements / 2}, numeric::Reduce::add});
        to->push_back({one.peer, {elements / 2, elements}, numeric::Reduce::add});
      }
    }
    return step;
  };
  for (int ranks = 2; ranks <= 9; ++ranks) expect_rejected(halves, ranks, "to what it sends");

  // Recursive doubling, one half of the numbers in the other order of partners.
  Route crossed = find_route("direct");
  crossed.steps = [](World) { return 2; };
  crossed.step = [](int rank, World, std::size_t elements, int k) {
    Step step;
    for (const int half : {0, 1}) {
      const Range range = half == 0 ? Range{0, elements / 2} : Range{elements / 2, elements};
      const Transfer one{rank ^ (half == k ? 1 : 2), range, numeric::Reduce::add};
      step.sends.push_back(one);
      step.receives.push_back(one);
    }
    return step;
  };
  expect_rejected(crossed, 4, "to what it sends");

  // A root that gets all sums at once: their order would be that of arrival.
  Route together = find_route("flat", transport::Collective::reduce);
  together.steps = [](World) { return 1; };
  together.step = [](int rank, World world, std::size_t elements, int) {
    Step step;
    if (rank != world.root) step.sends.push_back({world.root, {0, elements}, numeric::Reduce::add});
    for (int peer = 0; peer < world.ranks && rank == world.root; ++peer) {
      if (peer != rank) step.receives.push_back({peer, {0, elements}, numeric::Reduce::add});
    }
    return step;
  };
  for (int ranks = 3; ranks <= 9; ++ranks) expect_rejected(together, ranks, "to one place");
}

TEST(Schedules, CheckerRejectsADirectExchangeThatForgetsOrRepeatsARank) {
  Route faulty = find_route("direct");
  faulty.step = [](int rank, World world, std::size_t elements, int k) {
    Step step = direct::step(rank, world, elements, k);
    step.sends.erase_if([&](const Transfer& one) { return one.peer == (rank + 1) % world.ranks; });
    step.receives.erase_if([&](const Transfer& one) { return one.peer == (rank + world.ranks - 1) % world.ranks; });
    return step;
  };
  for (int ranks = 2; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "ends without rank");
  faulty.step = [](int rank, World world, std::size_t elements, int k) {
    Step step = direct::step(rank, world, elements, k);
    step.sends.push_back(step.sends[0]);
    step.receives.push_back(step.receives[0]);
    return step;
  };
  for (int ranks = 2; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "twice");
}

/// A route with one step of one rank changed; of 6 ranks, root 0.
void expect_rejected_with(transport::Collective collective, const char* route,
                          Step (*step)(int, World, std::size_t, int), const char* why) {
  Route faulty = find_route(route, collective);
  faulty.step = step;
  expect_rejected(faulty, 6, why);
}

TEST(Schedules, CheckerRejectsPlantedFaultsOfEveryCollective) {
  expect_rejected_with(
      transport::Collective::reduce_scatter, "ring",
      [](int rank, World world, std::size_t n, int k) {
        return k == 4 ? Step{} : ring::reduce_scatter(rank, world, n, k);
      },
      "ends without rank");
  expect_rejected_with(
      transport::Collective::reduce_scatter, "bruck",
      [](int rank, World world, std::size_t n, int k) { return bruck::reduce_scatter(rank, world, n, k == 1 ? 0 : k); },
      "twice");
  expect_rejected_with(
      transport::Collective::all_gather, "ring",
      [](int rank, World world, std::size_t n, int k) { return ring::all_gather(rank, world, n, k + 1); },
      "of no stated content");
  expect_rejected_with(
      transport::Collective::all_gather, "bruck",
      [](int rank, World world, std::size_t n, int k) {
        return k == 2 ? Step{} : bruck::all_gather(rank, world, n, k);
      },
      "ends with something else");
  expect_rejected_with(
      transport::Collective::all_gather, "direct",
      [](int rank, World world, std::size_t n, int k) {
        Step step = direct::all_gather(rank, world, n, k);
        for (Transfers* all : {&step.sends, &step.receives}) {
          for (Transfer& one : *all) one.how = numeric::Reduce::add;
        }
        return step;
      },
      "nothing is to be added");
  expect_rejected_with(
      transport::Collective::broadcast, "tree",
      [](int rank, World world, std::size_t n, int k) { return tree::broadcast(rank, world, n, 2 - k); },
      "of no stated content");
  expect_rejected_with(
      transport::Collective::broadcast, "flat",
      [](int rank, World world, std::size_t n, int k) { return k == 3 ? Step{} : flat::broadcast(rank, world, n, k); },
      "ends with something else");
  expect_rejected_with(
      transport::Collective::reduce, "tree",
      [](int rank, World world, std::size_t n, int k) { return tree::reduce(rank, world, n, 2 - k); },
      "ends without rank");
  expect_rejected_with(
      transport::Collective::reduce, "flat",
      [](int rank, World world, std::size_t n, int k) { return flat::reduce(rank, world, n, k / 2); }, "twice");
  expect_rejected_with(
      transport::Collective::gather, "tree",
      [](int rank, World world, std::size_t n, int k) {
        return tree::gather(rank, {world.ranks, 1, 1}, n, k);
      },
      "ends with something else");
  expect_rejected_with(
      transport::Collective::scatter, "flat",
      [](int rank, World world, std::size_t n, int k) {
        Step step = flat::scatter(rank, world, n, k);
        for (Transfers* all : {&step.sends, &step.receives}) {
          for (Transfer& one : *all) one.range.end -= 1;
        }
        return step;
      },
      "ends with something else");
  expect_rejected_with(
      transport::Collective::all_to_all, "pairwise",
      [](int rank, World world, std::size_t n, int k) {
        Step step = pairwise::all_to_all(rank, world, n, k);
        for (Transfer& one : step.receives) one.range = block_of(n, world.ranks, rank);
        return step;
      },
      "ends without rank 0's");
  expect_rejected_with(
      transport::Collective::all_to_all, "direct",
      [](int rank, World world, std::size_t n, int k) {
        Step step = direct::all_to_all(rank, world, n, k);
        step.receives[1].range = step.receives[0].range;
        return step;
      },
      "receives");
}

TEST(Schedules, CheckerRejectsAHierarchyThatMistakesItsNodes) {
  Route faulty = find_route("hierarchical");
  faulty.step = [](int rank, World world, std::size_t elements, int k) {
    return hierarchical::step(rank, {world.ranks, rank == 4 ? 3 : 2}, elements, k);
  };
  expect_rejected(faulty, {6, 2}, "which does not");
  faulty.step = [](int rank, World world, std::size_t elements, int k) {
    Step step = hierarchical::step(rank, world, elements, k);
    if (rank >= 4) step = {};  // the last, smaller node keeps out
    return step;
  };
  expect_rejected(faulty, {5, 2}, "which does not");
}

TEST(Schedules, CheckerRejectsATreeWithoutItsLastLevel) {
  Route faulty = find_route("double-binary-tree");
  faulty.steps = [](World world) { return double_binary_tree::steps(world) - 2; };
  for (int ranks = 2; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "ends without rank");
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
