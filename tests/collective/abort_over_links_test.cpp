// Two communicators' all-reduces in flight on the same links, along every route: one communicator is aborted, and the other
// goes on as if nothing had been.
#include <gtest/gtest.h>

#include "ripieno/collective/execute.h"
#include "tests/transport/abort_kit.h"

namespace ripieno {
namespace {

using namespace ripieno::testing;

constexpr int gives_up = 2;  // a rank
constexpr std::size_t elements = 50'011;

/// All-reduces, each checked; `gives_up_at` aborts the communicator in the place of one of them.
Task<> reduce_often(Communicator comm, const Route* route, int gives_up_at, bool registered, Kept* kept) {
  const auto where = registered ? WatchedNumbers::Where::registered : WatchedNumbers::Where::heap;
  for (int i = 0; i < 6; ++i) {
    if (i == gives_up_at) comm.abort(the_cause());
    WatchedNumbers numbers(&comm.endpoint(), elements, where, static_cast<float>(comm.rank() + i));
    ExecuteOptions options;
    options.segment_bytes = i % 2 ? 32 << 10 : 0;
    std::exception_ptr error;
    try {
      co_await all_reduce(*route, comm, NumberSpan(numbers.values()), options);
    } catch (...) {
      error = std::current_exception();
    }
    if (error) {
      numbers.fill(spoilt);
      kept->push_back(numbers);
      std::rethrow_exception(error);
    }
    EXPECT_TRUE(numbers.are_all(static_cast<float>(comm.size() * (comm.size() - 1) / 2 + comm.size() * i))) << route->name;
  }
}

/// Member lists by scope. The first is aborted.
using Members = std::vector<std::pair<Scope, std::vector<int>>>;

Task<> reduce_in_all(Endpoint* e, const Route* route, Members all, bool registered) {
  const std::shared_ptr<Endpoint> endpoint(std::shared_ptr<void>(), e);
  Kept kept;
  Side side(e);
  std::vector<std::pair<std::size_t, bool>> started;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [scope, members] = all[i];
    if (std::find(members.begin(), members.end(), e->rank()) == members.end()) continue;
    const int per_node = members.size() % 2 == 0 ? 2 : 1;
    const bool aborts = i == 0 && e->rank() == gives_up;
    const Communicator comm(endpoint, members, scope, per_node);
    started.emplace_back(side.start(reduce_often(comm, route, aborts ? 3 : -1, registered, &kept)), i == 0);
  }
  co_await side.landed();
  for (const auto& [i, is_broken] : started) {
    EXPECT_EQ(side.end(i), is_broken ? end_of(e->rank(), gives_up) : "done") << route->name << ", rank " << e->rank();
  }
  co_await meet_all(e);
  expect_untouched(kept);
}

class AbortOverLinks : public ::testing::TestWithParam<Way> {
 protected:
  static void expect_only_the_first_ends(const Members& all) {
    for (const Route& route : routes()) {
      for (const bool registered : {false, true}) {
        auto body = [&route, &all, registered](Endpoint* e) { return reduce_in_all(e, &route, all, registered); };
        expect_no_errors(run_ranks(GetParam(), {body, body, body, body}, hasty()));
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(By, AbortOverLinks, ::testing::Values(Way::tcp, Way::shared),
                         [](const auto& info) { return info.param == Way::tcp ? "Tcp" : "SharedMemory"; });

// Where all ranks share memory, the engine reduces in scope 0 what goes along its route.
TEST_P(AbortOverLinks, OfAllRanksLeavesAPartOfThem) { expect_only_the_first_ends({{0, {0, 1, 2, 3}}, {21, {3, 1, 2}}}); }

TEST_P(AbortOverLinks, OfAPartLeavesAllRanks) { expect_only_the_first_ends({{21, {3, 1, 2}}, {0, {0, 1, 2, 3}}}); }

TEST_P(AbortOverLinks, OfOnePartLeavesTheOtherOfTheSameScope) { expect_only_the_first_ends({{21, {0, 2}}, {21, {3, 1}}}); }

}  // namespace
}  // namespace ripieno
