// What the checker of schedules refuses: planted faults of every kind.
#include <gtest/gtest.h>

#include <bit>

#include "ripieno/collective/bruck.h"
#include "ripieno/collective/check.h"
#include "ripieno/collective/direct.h"
#include "ripieno/collective/double_binary_tree.h"
#include "ripieno/collective/flat.h"
#include "ripieno/collective/hierarchical.h"
#include "ripieno/collective/pairwise.h"
#include "ripieno/collective/ring.h"
#include "ripieno/collective/tree.h"
#include "ripieno/core/error.h"

namespace ripieno::collective {
namespace {

void expect_rejected(const Route& route, World world, const char* why) {
  try {
    check_schedule(route, world, 1000003);
    ADD_FAILURE() << "the checker accepts " << route.name << " for " << world.ranks << " ranks";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(Checker, RejectsAStepThatAddsTwice) {
  Route faulty = find_route("ring");
  faulty.name = "ring that starts over";
  faulty.step = [](int rank, World world, std::size_t elements, int k) {
    return ring::step(rank, world, elements, k == world.ranks - 2 ? 0 : k);  // the last reduce step repeats the first
  };
  for (int ranks = 3; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "twice");
}

TEST(Checker, RejectsAForgottenStep) {
  Route faulty = find_route("halving-doubling");
  faulty.name = "halving-doubling without its last step";
  faulty.steps = [](World world) { return find_route("halving-doubling").steps(world) - 1; };
  for (int ranks = 2; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "ends without rank");
}

TEST(Checker, RejectsEndsThatDisagree) {
  Route faulty = find_route("ring");
  faulty.step = [](int rank, World world, std::size_t elements, int k) {
    Step step = ring::step(rank, world, elements, k);
    if (rank == 1 && k == 0) step.receives[0].range.begin += 1;
    return step;
  };
  expect_rejected(faulty, 4, "receives [");
}

TEST(Checker, KnowsThatAStepSendsWhatWasThereBefore) {
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

TEST(Checker, RejectsADirectExchangeThatForgetsOrRepeatsARank) {
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

TEST(Checker, RejectsPlantedFaultsOfEveryCollective) {
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

TEST(Checker, RejectsAHierarchyThatMistakesItsNodes) {
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

TEST(Checker, RejectsATreeWithoutItsLastLevel) {
  Route faulty = find_route("double-binary-tree");
  faulty.steps = [](World world) { return double_binary_tree::steps(world) - 2; };
  for (int ranks = 2; ranks <= 9; ++ranks) expect_rejected(faulty, ranks, "ends without rank");
}

TEST(Checker, RejectsAddsThatTheExecutorCannotKeepApart) {
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

}  // namespace
}  // namespace ripieno::collective
