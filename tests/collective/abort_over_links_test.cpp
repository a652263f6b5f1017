// Two communicators' operations in flight on the same links, every collective along every route: one communicator is
// aborted, and the other goes on as if nothing had been.
#include <gtest/gtest.h>

#include "ripieno/collective/execute.h"
#include "ripieno/collective/virtual_cluster.h"
#include "tests/transport/abort_kit.h"

namespace ripieno::collective {
namespace {

using namespace ripieno::testing;

constexpr int gives_up = 2;  // a rank
constexpr std::size_t elements = 50'011;

/// The root where there is one, of members of whom rank `gives_up` is one or not.
int root_of(const Communicator& comm) { return comm.size() - 1; }

/// Whether a member ends with what the collective promises (collective/schedule.h), where member m has begun with m +
/// i.
bool is_right(const Route& route, const Communicator& comm, int i, const WatchedNumbers& numbers) {
  const int ranks = comm.size(), rank = comm.rank(), root = root_of(comm);
  const auto are = [&](Range range, int value) {
    const auto all = numbers.values().subspan(range.begin, range.size());
    return std::all_of(all.begin(), all.end(), [value](float one) { return one == static_cast<float>(value); });
  };
  const auto chunks_are_theirs = [&](bool blocks) {
    bool right = true;
    for (int m = 0; m < ranks; ++m) {
      right = right && are(blocks ? block_of(elements, ranks, m) : chunk(elements, ranks, m), m + i);
    }
    return right;
  };
  const int sum = ranks * (ranks - 1) / 2 + ranks * i;
  const Range all{0, elements}, own = chunk(elements, ranks, rank);
  switch (route.collective) {
    case transport::Collective::all_reduce:
      return are(all, sum);
    case transport::Collective::reduce_scatter:
      return are(own, sum);
    case transport::Collective::all_gather:
      return chunks_are_theirs(false);
    case transport::Collective::broadcast:
      return are(all, root + i);
    case transport::Collective::reduce:
      return rank != root || are(all, sum);
    case transport::Collective::gather:
      return rank != root || chunks_are_theirs(false);
    case transport::Collective::scatter:
      return are(own, root + i);
    case transport::Collective::all_to_all:
      return chunks_are_theirs(true);
  }
  return false;
}

/// The collective again and again, each time checked; `gives_up_at` aborts the communicator in the place of one of
/// them.
Task<> operate_often(Communicator comm, const Route* route, int gives_up_at, bool registered, Kept* kept) {
  const auto where = registered ? WatchedNumbers::Where::registered : WatchedNumbers::Where::heap;
  for (int i = 0; i < 6; ++i) {
    if (i == gives_up_at) comm.abort(the_cause());
    WatchedNumbers numbers(&comm.endpoint(), elements, where, static_cast<float>(comm.rank() + i));
    ExecuteOptions options;
    options.segment_bytes = i % 2 ? 32 << 10 : 0;
    options.root = root_of(comm);
    std::exception_ptr error;
    try {
      co_await run_collective(*route, comm, NumberSpan(numbers.values()), options);
    } catch (...) {
      error = std::current_exception();
    }
    if (error) {
      numbers.fill(spoilt);
      kept->push_back(numbers);
      std::rethrow_exception(error);
    }
    EXPECT_TRUE(is_right(*route, comm, i, numbers))
        << transport::name(route->collective) << " " << route->name << ", rank " << comm.rank();
  }
}

/// Whether a member may send all that is its own without waiting for anybody.
bool may_end_early(const Route& route) {
  return route.collective == transport::Collective::broadcast || route.collective == transport::Collective::reduce ||
         route.collective == transport::Collective::gather || route.collective == transport::Collective::scatter;
}

/// Member lists by scope. The first is aborted.
using Members = std::vector<std::pair<transport::Scope, std::vector<int>>>;

Task<> operate_in_all(transport::Endpoint* e, const Route* route, Members all, bool registered) {
  const std::shared_ptr<transport::Endpoint> endpoint(std::shared_ptr<void>(), e);
  Kept kept;
  Side side(e);
  std::vector<std::pair<std::size_t, bool>> started;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [scope, members] = all[i];
    if (std::find(members.begin(), members.end(), e->rank()) == members.end()) continue;
    const int per_node = members.size() % 2 == 0 ? 2 : 1;
    const bool aborts = i == 0 && e->rank() == gives_up;
    const Communicator comm(endpoint, members, scope, per_node);
    started.emplace_back(side.start(operate_often(comm, route, aborts ? 3 : -1, registered, &kept)), i == 0);
  }
  co_await side.landed();
  for (const auto& [i, is_broken] : started) {
    // Who has nothing to wait for in what is left (a reduce's leaf, say) may be done before it hears of the abort.
    const std::string end = is_broken ? end_of(e->rank(), gives_up) : "done";
    const bool may_be_done = is_broken && e->rank() != gives_up && may_end_early(*route);
    EXPECT_TRUE(side.end(i) == end || (may_be_done && side.end(i) == "done"))
        << transport::name(route->collective) << " " << route->name << ", rank " << e->rank() << ": " << side.end(i);
  }
  co_await meet_all(e);
  expect_untouched(kept);
}

template <class Body>
void for_every_route(Body body) {
  for (const transport::Collective collective : collectives) {
    for (const Route& route : routes(collective)) {
      body(route, false);
      if (collective == transport::Collective::all_reduce) body(route, true);
    }
  }
}

class AbortOverLinks : public ::testing::TestWithParam<Way> {
 protected:
  static void expect_only_the_first_ends(const Members& all) {
    for_every_route([&](const Route& route, bool registered) {
      auto body = [&route, &all, registered](transport::Endpoint* e) {
        return operate_in_all(e, &route, all, registered);
      };
      expect_no_errors(run_ranks(GetParam(), {body, body, body, body}, hasty()));
    });
  }
};

INSTANTIATE_TEST_SUITE_P(By, AbortOverLinks, ::testing::ValuesIn(every_way), way_of);

// Where all ranks share memory, the engine reduces in scope 0 what goes along its route.
TEST_P(AbortOverLinks, OfAllRanksLeavesAPartOfThem) {
  expect_only_the_first_ends({{0, {0, 1, 2, 3}}, {21, {3, 1, 2}}});
}

TEST_P(AbortOverLinks, OfAPartLeavesAllRanks) { expect_only_the_first_ends({{21, {3, 1, 2}}, {0, {0, 1, 2, 3}}}); }

TEST_P(AbortOverLinks, OfOnePartLeavesTheOtherOfTheSameScope) {
  expect_only_the_first_ends({{21, {0, 2}}, {21, {3, 1}}});
}

void expect_only_the_first_ends_in_virtual_time(const Members& all) {
  for_every_route([&](const Route& route, bool) {
    VirtualCluster cluster(4);
    cluster.run([&](Communicator comm) { return operate_in_all(&comm.endpoint(), &route, all, false); });
  });
}

TEST(AbortInVirtualTime, OfAllRanksLeavesAPartOfThem) {
  expect_only_the_first_ends_in_virtual_time({{0, {0, 1, 2, 3}}, {21, {3, 1, 2}}});
}

TEST(AbortInVirtualTime, OfAPartLeavesAllRanks) {
  expect_only_the_first_ends_in_virtual_time({{21, {3, 1, 2}}, {0, {0, 1, 2, 3}}});
}

TEST(AbortInVirtualTime, OfOnePartLeavesTheOtherOfTheSameScope) {
  expect_only_the_first_ends_in_virtual_time({{21, {0, 2}}, {21, {3, 1}}});
}

}  // namespace
}  // namespace ripieno::collective
