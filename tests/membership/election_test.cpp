#include "ripieno/membership/election.h"

#include <gtest/gtest.h>

#include "ripieno/collective/virtual_cluster.h"

namespace ripieno::membership {
namespace {

using collective::VirtualCluster;

constexpr Duration us(std::int64_t n) { return Duration(n * 1'000'000); }

transport::SimulatedOptions network(std::size_t window) {
  return {.link = {us(50), Duration(8'000)}, .window_bytes = window};
}

Task<> elect_once(collective::Communicator comm, std::uint32_t round, std::vector<int>* leaders) {
  const std::vector<int> alive = co_await comm.endpoint().survivors();
  (*leaders)[comm.rank()] = co_await elect(comm.shared_endpoint(), alive, {observe::Purpose::control, round});
}

/// After all of `dead` are lost.
Task<> elect_after(collective::Communicator comm, Duration when, std::vector<int>* leaders) {
  co_await comm.runtime().sleep(when);
  co_await elect_once(comm, 0, leaders);
}

TEST(Election, HighestOfAnySubsetLeadsWithTheStatedMessages) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (unsigned dead = 0; dead + 1 < 1u << ranks; ++dead) {
      collective::VirtualCluster cluster(
          ranks, network(dead % 2 ? 0 : 4096));  // without a window too: the order alone must hold
      std::vector<int> alive, leaders(ranks, -1);
      for (int rank = 0; rank < ranks; ++rank) {
        if (dead >> rank & 1) {
          cluster.network().kill(rank);
        } else {
          alive.push_back(rank);
        }
      }
      cluster.run_mortal([&](collective::Communicator comm) { return elect_after(comm, us(20'000), &leaders); });
      const std::uint64_t m = alive.size();
      std::uint64_t all = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const observe::Traffic traffic = cluster.ledger(rank).total(observe::Purpose::control);
        all += traffic.messages_sent;
        EXPECT_EQ(traffic, cluster.ledger(rank).total());
        EXPECT_EQ(traffic.payload_sent, 4 * traffic.messages_sent);
        if (dead >> rank & 1) {
          EXPECT_EQ(leaders[rank], -1);
          EXPECT_EQ(traffic, observe::Traffic());
          continue;
        }
        const bool leads = rank == alive.back();
        EXPECT_EQ(leaders[rank], alive.back()) << "rank " << rank << " of " << ranks << " without " << dead;
        EXPECT_EQ(traffic.messages_sent, leads ? 2 * (m - 1) : m - 1);
        EXPECT_EQ(traffic.messages_received, leads ? m - 1 : m);
      }
      EXPECT_EQ(all, m * m - 1);
    }
  }
}

/// Elects until an election's end outlasts every death: then the leader hears from all and answers.
Task<> elect_until_settled(collective::Communicator comm, Duration settled, std::vector<int>* leaders,
                           std::vector<std::string>* log) {
  transport::Endpoint& endpoint = comm.endpoint();
  const transport::Message confirm{{observe::Purpose::control, 5}, "confirm", DType::fp32, 0};
  for (;;) {
    try {
      const std::vector<int> alive = co_await endpoint.survivors();
      const auto losses = static_cast<std::uint32_t>(comm.size() - alive.size());
      const int leader = co_await elect(comm.shared_endpoint(), alive,
                                        {observe::Purpose::control, static_cast<std::uint32_t>(losses)});
      log->push_back(text(comm.runtime().now().count(), ": rank ", comm.rank(), " follows ", leader));
      if (comm.runtime().now() < settled) co_await comm.runtime().sleep(settled - comm.runtime().now());
      for (const int peer : alive) {
        if (peer == comm.rank()) continue;
        if (comm.rank() == leader) co_await endpoint.receive(peer, confirm, Bytes());
        if (peer == leader) co_await endpoint.send(leader, confirm, ConstBytes());
      }
      (*leaders)[comm.rank()] = leader;
      co_return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::peer) throw;
      log->push_back(text(comm.runtime().now().count(), ": ", error.what()));
      if (std::string(error.what()).find("was killed") != std::string::npos) co_return;
    }
  }
}

struct Settled {
  std::vector<int> leaders;
  std::vector<std::string> log;
  bool operator==(const Settled&) const = default;
};

Settled settle(int ranks, const std::vector<std::pair<Duration, int>>& deaths) {
  collective::VirtualCluster cluster(ranks, network(4096));
  Settled result{std::vector<int>(ranks, -1), {}};
  for (const auto& [when, rank] : deaths) cluster.kill_at(when, rank);
  cluster.run([&](collective::Communicator comm) {
    return elect_until_settled(comm, us(100'000), &result.leaders, &result.log);
  });
  return result;
}

TEST(Election, TheLeaderDiesAtAnyTimeBeforeOrWhileElecting) {
  int unheard = 0, heard = 0;  // elections that the leader's death broke, and that ended before its death was known
  for (Duration when{0}; when < us(400); when += us(2)) {
    const Settled result = settle(5, {{when, 4}});
    EXPECT_EQ(result.leaders, (std::vector<int>{3, 3, 3, 3, -1})) << "killed at " << when.count() << " ps";
    const auto follows = [](const std::string& line) { return line.ends_with("follows 4"); };
    ++(std::any_of(result.log.begin(), result.log.end(), follows) ? heard : unheard);
    EXPECT_EQ(result, settle(5, {{when, 4}}));
  }
  EXPECT_GT(heard, 0);  // the times above cover both
  EXPECT_GT(unheard, 0);
}

TEST(Election, LeadersDieOneAfterTheOtherAlsoWhileTheNextIsElected) {
  for (Duration gap{0}; gap < us(12'000); gap += us(71)) {
    const Settled result = settle(6, {{us(30), 5}, {us(30) + gap, 4}, {us(60) + 2 * gap, 2}});
    EXPECT_EQ(result.leaders, (std::vector<int>{3, 3, -1, 3, -1, -1})) << "gap " << gap.count() << " ps";
  }
}

TEST(Election, TheLastOneLeadsItself) {
  const Settled result = settle(3, {{us(10), 2}, {us(10'100), 1}});
  EXPECT_EQ(result.leaders, (std::vector<int>{0, -1, -1}));
}

Task<> elect_twice(collective::Communicator comm, std::vector<int>* leaders) {
  co_await elect_once(comm, 0, leaders);
  co_await elect_once(comm, 1, leaders);
}

TEST(Election, TakesTwoLatenciesAndRoundsDoNotMix) {
  collective::VirtualCluster once(4, {.link = {us(50), Duration(0)}}), twice(4, {.link = {us(50), Duration(0)}});
  std::vector<int> leaders(4, -1);
  EXPECT_EQ(once.run([&](collective::Communicator comm) { return elect_once(comm, 0, &leaders); }), us(100));
  EXPECT_EQ(leaders, (std::vector<int>{3, 3, 3, 3}));
  twice.run([&](collective::Communicator comm) { return elect_twice(comm, &leaders); });
  EXPECT_EQ(leaders, (std::vector<int>{3, 3, 3, 3}));
  EXPECT_EQ(twice.ledger(0).total().messages_sent, 2 * once.ledger(0).total().messages_sent);
}

Task<> elect_among(collective::Communicator comm, std::vector<int> alive, std::uint32_t round) {
  co_await elect(comm.shared_endpoint(), alive, {observe::Purpose::control, round});
}

std::string refusal(int ranks, std::vector<int> alive, std::uint32_t round) {
  collective::VirtualCluster cluster(ranks);
  cluster.runtime().spawn("rank 0", elect_among(cluster.comm(0), std::move(alive), round));
  try {
    cluster.runtime().run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Election, RefusesAListThatCannotBe) {
  const std::vector<std::pair<std::vector<int>, const char*>> lists{
      {{}, "without being in the list"}, {{1}, "without being in the list"},     {{0, 0, 1}, "not ascending"},
      {{0, 1, 1}, "not ascending"},      {{0, 1, 2}, "among ranks 0 to 2 of 2"}, {{-1, 0}, "among ranks -1 to 0 of 2"}};
  for (const auto& [alive, why] : lists) {
    const std::string message = refusal(2, alive, 0);
    EXPECT_NE(message.find(why), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace ripieno::membership
