// Who goes on after a loss, over real links.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/async.h"
#include "tests/transport/ranks.h"

namespace ripieno::testing {
namespace {

using collective::Communicator;
using transport::Endpoint;

/// What a rank has seen: after each loss, the sum that those who were left computed.
using Sums = std::vector<std::int64_t>;

std::shared_ptr<Endpoint> unowned(Endpoint* endpoint) { return {std::shared_ptr<Endpoint>(), endpoint}; }

/// Until nobody is lost any more: sums up the ranks, `rounds` times after the last loss that it hears of, and goes on
/// with those that are left.
Task<> sums_on(Endpoint* endpoint, int rounds, Sums* sums) {
  Communicator comm(unowned(endpoint));
  for (int round = 0; round < rounds;) {
    std::exception_ptr loss;
    std::int64_t sum = 0;
    try {
      sum = co_await comm.all_reduce(std::int64_t{endpoint->rank()});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::peer) throw;
      loss = std::current_exception();
    }
    if (loss) {
      comm.abort(loss);
      comm = co_await comm.survivors();
      round = 0;
      continue;
    }
    if (sums->empty() || sums->back() != sum) sums->push_back(sum);
    ++round;
    co_await endpoint->runtime().sleep(std::chrono::milliseconds(1));
  }
}

/// Takes part `rounds` times and is gone.
Body goes_after(int rounds, Sums* sums) {
  return [rounds, sums](Endpoint* endpoint) { return sums_on(endpoint, rounds, sums); };
}

class Survivors : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(By, Survivors, ::testing::Values(Way::tcp, Way::shared, Way::own, Way::virtual_links), way_of);

constexpr int long_enough = 30;  // sums after the last loss, for ranks that must see all losses

TEST_P(Survivors, GoOnWithoutWhoIsGone) {
  for (int gone = 1; gone < 4; ++gone) {
    std::vector<Sums> sums(4);
    std::vector<Body> bodies;
    for (int rank = 0; rank < 4; ++rank) bodies.push_back(goes_after(rank == gone ? 3 : long_enough, &sums[rank]));
    const auto outcomes = run_ranks(GetParam(), bodies, {}, true);
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(outcomes[rank].error, "") << rank;
      if (rank != gone) {
        EXPECT_EQ(sums[rank], (Sums{6, 6 - gone})) << rank << " without " << gone;
      }
    }
  }
}

TEST_P(Survivors, GoOnUntilOnlyRank0IsLeft) {
  std::vector<Sums> sums(4);
  std::vector<Body> bodies{goes_after(long_enough, &sums[0])};
  // Each goes a few sums after the one before it has gone: survivors() begins the count anew.
  for (int rank = 1; rank < 4; ++rank) bodies.push_back(goes_after(3 + rank, &sums[rank]));
  const auto outcomes = run_ranks(GetParam(), bodies, {}, true);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(outcomes[rank].error, "") << rank;
  EXPECT_EQ(sums[0], (Sums{6, 5, 3, 0}));
  EXPECT_EQ(sums[3], (Sums{6, 5, 3}));
}

TEST_P(Survivors, GoOnAfterSeveralAtOnceAndOneWhileTheyAgree) {
  // Ranks 1 and 3 are gone; rank 2 goes when it should agree on that.
  auto goes_instead = [](Endpoint* endpoint) -> Task<> {
    const Communicator comm(unowned(endpoint));
    for (int round = 0; round < 3; ++round) co_await comm.all_reduce(std::int64_t{endpoint->rank()});
    Task<> waiting = comm.barrier();
    const std::exception_ptr loss = co_await error_of(std::move(waiting));
    comm.abort(loss);
    co_await endpoint->flush();
  };
  std::vector<Sums> sums(5);
  const auto outcomes = run_ranks(GetParam(),
                                  {goes_after(long_enough, &sums[0]), goes_after(3, &sums[1]), goes_instead,
                                   goes_after(3, &sums[3]), goes_after(long_enough, &sums[4])},
                                  {}, true);
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(outcomes[rank].error, "") << rank;
  EXPECT_EQ(sums[0].back(), 4);
  EXPECT_EQ(sums[4].back(), 4);
}

TEST_P(Survivors, NobodyGoesOnWithoutRank0) {
  std::vector<Sums> sums(3);
  const auto outcomes = run_ranks(
      GetParam(), {goes_after(3, &sums[0]), goes_after(long_enough, &sums[1]), goes_after(long_enough, &sums[2])}, {},
      true);
  EXPECT_EQ(outcomes[0].error, "");
  for (const int rank : {1, 2}) {
    EXPECT_EQ(outcomes[rank].kind, ErrorKind::peer) << rank;
    EXPECT_NE(outcomes[rank].error.find("lost rank 0"), std::string::npos) << outcomes[rank].error;
    EXPECT_EQ(sums[rank], Sums{3}) << rank;
  }
}

class SurvivorsOverConnections : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(By, SurvivorsOverConnections, ::testing::Values(Way::tcp, Way::shared), way_of);

TEST_P(SurvivorsOverConnections, OfTwoThatHaveLostEachOtherTheHigherIsLeftOut) {
  std::vector<std::vector<int>> connections;
  std::vector<Sums> sums(4);
  const auto cuts = [&connections, &sums](Endpoint* endpoint) {
    ::shutdown(connections[2][3], SHUT_RDWR);
    return sums_on(endpoint, long_enough, &sums[2]);
  };
  const auto outcomes = run_ranks(
      GetParam(), {goes_after(long_enough, &sums[0]), goes_after(long_enough, &sums[1]), cuts, goes_after(1, &sums[3])},
      {}, true, &connections);
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(outcomes[rank].error, "") << rank;
    EXPECT_EQ(sums[rank].back(), 3) << rank;  // perhaps 6 before: what has arrived counts
  }
  EXPECT_EQ(outcomes[3].kind, ErrorKind::peer);
  EXPECT_EQ(outcomes[3].error, "rank 3: the others go on without it, since one of them has lost it");
}

TEST_P(Survivors, NobodyGoesOnIfARankHangs) {
  // Who has given up on a rank cannot tell a dead one from a slow one.
  const auto hangs = [](Endpoint* endpoint) -> Task<> {
    co_await endpoint->runtime().sleep(std::chrono::milliseconds(1500));
  };
  std::vector<Sums> sums(3);
  transport::SharedOptions options;
  options.link.timeout = std::chrono::milliseconds(300);
  const auto outcomes = run_ranks(GetParam(), {goes_after(3, &sums[0]), goes_after(3, &sums[1]), hangs}, options, true);
  for (const int rank : {0, 1}) EXPECT_EQ(outcomes[rank].kind, ErrorKind::peer) << outcomes[rank].error;
  EXPECT_TRUE(sums[0].empty());
}

TEST(SurvivorsOverMpi, ThereAreNone) {
  const auto asks = [](Endpoint* endpoint) -> Task<> { co_await endpoint->survivors(); };
  const auto outcomes = run_ranks(Way::mpi, {asks, asks});
  EXPECT_EQ(outcomes[0].error, "rank 0: over MPI a lost rank ends the job");
  EXPECT_EQ(outcomes[1].kind, ErrorKind::peer);
}

}  // namespace
}  // namespace ripieno::testing
