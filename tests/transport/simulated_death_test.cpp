// Ranks that die on a simulated network. Latency 50 us, 8 ns a byte; a death is known 10 ms later.
#include <gtest/gtest.h>

#include "ripieno/collective/virtual_cluster.h"
#include "tests/transport/notes.h"

namespace ripieno::transport {
namespace {

using collective::VirtualCluster;
using testing::gigabit;
using testing::note;

constexpr Duration ms(double n) { return Duration(static_cast<std::int64_t>(n * 1e9)); }

Task<> write(collective::Communicator comm, int peer, std::int32_t value, std::uint32_t channel = 0) {
  const ConstBytes payload(reinterpret_cast<const std::byte*>(&value), sizeof value);
  co_await comm.endpoint().send(peer, note(1, channel), payload);
}

Task<std::int32_t> read(collective::Communicator comm, int peer, std::uint32_t channel = 0) {
  std::int32_t value = -1;
  const Bytes payload(reinterpret_cast<std::byte*>(&value), sizeof value);
  co_await comm.endpoint().receive(peer, note(1, channel), payload);
  co_return value;
}

/// "" or the Error(peer) that ended `task`.
Task<std::string> outcome(Task<> task) {
  try {
    co_await std::move(task);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer) throw;
    co_return error.what();
  }
  co_return std::string();
}

Task<> read_and_drop(collective::Communicator comm, int peer) { co_await read(comm, peer); }

struct Loss {
  std::string pending, later, beside;
  Duration when{};
  std::vector<int> alive;
};

/// Ranks 0 and 1 wait: 0 for the rank that dies, 1 for 0, who lives.
Task<> meet_a_death(collective::Communicator comm, std::vector<Loss>* losses) {
  Loss& loss = (*losses)[comm.rank()];
  loss.pending = co_await outcome(read_and_drop(comm, comm.rank() == 1 ? 0 : 1 + comm.rank() % 2));
  loss.when = comm.runtime().now();
  loss.later = co_await outcome(read_and_drop(comm, comm.rank() == 1 ? 0 : 1));
  loss.beside = co_await outcome(write(comm, comm.rank() == 1 ? 0 : 1, 1));
  loss.alive = co_await comm.endpoint().survivors();
}

TEST(SimulatedDeath, FailsTheDeadAtOnceAndAllOthersAfterDetection) {
  collective::VirtualCluster cluster(3, gigabit);
  std::vector<Loss> losses(3);
  cluster.kill_at(ms(2), 2);
  EXPECT_FALSE(cluster.network().dead(2));
  cluster.run_mortal([&](collective::Communicator comm) { return meet_a_death(comm, &losses); });
  for (const int rank : {0, 1}) {
    const std::string lost = text("rank ", rank, ": lost rank 2");
    EXPECT_EQ(losses[rank].when, ms(12));  // rank 1 too, who waited for 0
    const Loss& own = losses[rank];
    for (const auto& failure : {own.pending, own.later, own.beside}) EXPECT_EQ(failure, lost);
    EXPECT_EQ(losses[rank].alive, (std::vector<int>{0, 1}));
  }
  EXPECT_TRUE(cluster.network().dead(2));
  EXPECT_EQ(losses[2].when, ms(2));
  const Loss& own = losses[2];
  for (const auto& failure : {own.pending, own.later, own.beside}) EXPECT_EQ(failure, "rank 2 was killed");
  EXPECT_TRUE(losses[2].alive.empty());  // survivors() threw
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(cluster.ledger(rank).total(), observe::Traffic());
}

Task<> ask_survivors(collective::Communicator comm, std::vector<int>* values) {
  const int peer = 1 - comm.rank();
  co_await write(comm, peer, 7);
  const std::vector<int> alive = co_await comm.endpoint().survivors();
  values->push_back(static_cast<int>(alive.size()));
  values->push_back(co_await read(comm, peer));
}

TEST(SimulatedDeath, SurvivorsWithoutALossChangesNothing) {
  collective::VirtualCluster cluster(2, gigabit);
  std::vector<int> values;
  cluster.run([&](collective::Communicator comm) { return ask_survivors(comm, &values); });
  EXPECT_EQ(values, (std::vector<int>{2, 2, 7, 7}));
}

Task<> last_words(collective::Communicator comm, std::vector<std::string>* heard) {
  if (comm.rank() == 1) {
    co_await write(comm, 0, 11);
    co_await comm.runtime().sleep(ms(1));
    co_await write(comm, 0, 12);  // under way when rank 1 dies
    co_await read(comm, 0, 9);
  }
  co_await comm.runtime().sleep(ms(2));
  heard->push_back(std::to_string(co_await read(comm, 1)));
  heard->push_back(co_await outcome(read_and_drop(comm, 1)));
}

TEST(SimulatedDeath, WhatHadArrivedIsReadWhatIsUnderWayIsLost) {
  collective::VirtualCluster cluster(2, gigabit);
  std::vector<std::string> heard;
  cluster.kill_at(ms(1.02), 1);
  cluster.run_mortal([&](collective::Communicator comm) { return last_words(comm, &heard); });
  EXPECT_EQ(heard, (std::vector<std::string>{"11", "rank 0: lost rank 1"}));
}

/// Rank 2 dies at 1 ms. Before, rank 0 writes an old value to rank 1, who reads in the new epoch only.
Task<> two_epochs(collective::Communicator comm, std::vector<int>* values, Duration late) {
  if (comm.rank() == 2) co_await read(comm, 0, 9);
  if (comm.rank() == 0) {
    co_await write(comm, 1, 100);
    co_await write(comm, 1, 101, 5);
    EXPECT_EQ(co_await outcome(read_and_drop(comm, 2)), "rank 0: lost rank 2");
    co_await comm.endpoint().survivors();
    co_await write(comm, 1, 200);
    values->push_back(co_await read(comm, 1));
    co_return;
  }
  co_await comm.runtime().sleep(late);
  EXPECT_EQ(co_await outcome(read_and_drop(comm, 0)), "rank 1: lost rank 2");
  co_await comm.endpoint().survivors();
  values->push_back(co_await read(comm, 0));
  co_await write(comm, 0, 300);
}

TEST(SimulatedDeath, EpochsDoNotMeet) {
  for (const Duration late : {ms(11.001), ms(11.02), ms(12), ms(40)}) {  // the new message is on its way, or waits
    collective::VirtualCluster cluster(3, gigabit);
    std::vector<int> values;
    cluster.kill_at(ms(1), 2);
    cluster.run_mortal([&](collective::Communicator comm) { return two_epochs(comm, &values, late); });
    EXPECT_EQ(values, (std::vector<int>{200, 300}));
    // Completed: three sends of rank 0 (two were dropped on the way), of which rank 1 received one.
    EXPECT_EQ(cluster.ledger(0).total().messages_sent, 3u);
    EXPECT_EQ(cluster.ledger(1).total().messages_received, 1u);
    EXPECT_EQ(cluster.ledger(0).total().messages_received, 1u);
  }
}

Task<> fill_the_window(collective::Communicator comm, std::vector<Duration>* sent) {
  std::vector<std::byte> half(2048);
  if (comm.rank() == 2) co_await read(comm, 0);
  EXPECT_EQ(co_await outcome(read_and_drop(comm, 2)), text("rank ", comm.rank(), ": lost rank 2"));
  if (comm.rank() == 1) {
    co_await comm.runtime().sleep(ms(100));
    co_await comm.endpoint().survivors();
    for (int i = 0; i < 3; ++i) co_await comm.endpoint().receive(0, note(512), Bytes(half));
    co_return;
  }
  co_await comm.endpoint().survivors();
  for (int i = 0; i < 3; ++i) {
    co_await comm.endpoint().send(1, note(512), half);
    sent->push_back(comm.runtime().now());
  }
}

TEST(SimulatedDeath, EarlyMessagesWaitWithinTheWindow) {
  collective::VirtualCluster cluster(3, gigabit);
  std::vector<Duration> sent;
  cluster.kill_at(ms(1), 2);
  cluster.run_mortal([&](collective::Communicator comm) { return fill_the_window(comm, &sent); });
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[1], ms(11) + Duration(2 * 2048 * 8'000));  // two fit
  EXPECT_EQ(sent[2], ms(111) + Duration(2048 * 8'000));     // the third starts when rank 1 has come and asks
}

Task<> cut_off(collective::Communicator comm, std::vector<std::byte>* memory, Duration* took) {
  if (comm.rank() == 2) co_await read(comm, 0);
  if (comm.rank() == 0) {
    EXPECT_NE(co_await outcome(comm.endpoint().send(1, note(2'500'000), *memory)), "");
  } else {
    EXPECT_NE(co_await outcome(comm.endpoint().receive(0, note(2'500'000), Bytes(*memory))), "");
  }
  co_await comm.endpoint().survivors();
  const Duration start = comm.runtime().now();
  if (comm.rank() == 0) {
    co_await write(comm, 1, 5);
  } else {
    EXPECT_EQ(co_await read(comm, 0), 5);
    *took = comm.runtime().now() - start;
  }
}

TEST(SimulatedDeath, ALossCutsOffWhatIsUnderWayAndFreesTheCards) {
  collective::VirtualCluster cluster(3, gigabit);
  std::vector<std::byte> memory(10'000'000);  // 80 ms on the wire
  Duration took{};
  cluster.kill_at(ms(1), 2);
  cluster.run_mortal([&](collective::Communicator comm) { return cut_off(comm, &memory, &took); });
  EXPECT_EQ(took.count(), 50'000'000 + 4 * 8'000);
}

/// All to all, over and over, until it succeeds after the last death; what failed on the way.
Task<> recover(collective::Communicator comm, std::vector<std::vector<std::string>>* log, int deaths) {
  auto& mine = (*log)[comm.rank()];
  for (;;) {
    std::string failure;
    const std::vector<int> alive = co_await comm.endpoint().survivors();
    try {
      for (const int peer : alive) {
        if (peer != comm.rank()) co_await write(comm, peer, 1000 * comm.rank() + static_cast<int>(alive.size()));
      }
      for (const int peer : alive) {
        if (peer == comm.rank()) continue;
        EXPECT_EQ(co_await read(comm, peer), 1000 * peer + static_cast<int>(alive.size()));
      }
      if (static_cast<int>(alive.size()) == comm.size() - deaths) co_return;
      co_await read(comm, comm.rank() == alive[0] ? alive[1] : alive[0], 9);  // waits for the next death
    } catch (const Error& error) {
      failure = error.what();
    }
    mine.push_back(text(comm.runtime().now().count(), " ", failure));
    if (failure.find("was killed") != std::string::npos) co_return;
    co_await comm.runtime().sleep(Duration(1'000'000) * comm.rank());  // they recover one after the other
  }
}

std::vector<std::vector<std::string>> recover_from(const std::vector<std::pair<Duration, int>>& deaths, int ranks) {
  collective::VirtualCluster cluster(ranks, gigabit);
  std::vector<std::vector<std::string>> log(ranks);
  for (const auto& [when, rank] : deaths) cluster.kill_at(when, rank);
  cluster.run([&](collective::Communicator comm) { return recover(comm, &log, static_cast<int>(deaths.size())); });
  return log;
}

TEST(SimulatedDeath, SeveralDeathsAlsoDuringRecoveryAndAlikeEveryTime) {
  // The second death falls before, at and after the first one's detection (11 ms) and at many points of the recovery.
  for (int step = 0; step < 60; ++step) {
    const Duration second = ms(0.5) + ms(0.25) * step;
    const std::vector<std::pair<Duration, int>> deaths{{ms(1), 3}, {second, 0}, {second + ms(0.01), 4}};
    const auto log = recover_from(deaths, 6);
    for (const int rank : {1, 2, 5}) {
      ASSERT_FALSE(log[rank].empty());
      for (const std::string& line : log[rank]) EXPECT_NE(line.find("lost rank"), std::string::npos) << line;
    }
    EXPECT_EQ(log, recover_from(deaths, 6));
  }
}

Task<> abort_after_loss(collective::Communicator comm, ErrorKind kind, std::vector<std::string>* ends) {
  if (comm.rank() == 2) co_await read(comm, 0);
  const std::string lost = co_await outcome(read_and_drop(comm, 2));
  if (comm.rank() == 0) comm.endpoint().abort(0, {0, 1}, std::make_exception_ptr(Error(kind, lost)));
  if (comm.rank() == 0 && kind != ErrorKind::peer) co_return;
  co_await comm.endpoint().survivors();
  if (comm.rank() == 0) co_await write(comm, 1, 5);
  if (comm.rank() == 1) (*ends)[1] = co_await outcome(read_and_drop(comm, 0));
}

TEST(SimulatedDeath, AnAbortBecauseOfALossEndsNothingAnotherErrorDoes) {
  for (const ErrorKind kind : {ErrorKind::peer, ErrorKind::data}) {
    collective::VirtualCluster cluster(3, gigabit);
    std::vector<std::string> ends(2);
    cluster.kill_at(ms(1), 2);
    cluster.run_mortal([&](collective::Communicator comm) { return abort_after_loss(comm, kind, &ends); });
    EXPECT_EQ(ends[1], kind == ErrorKind::peer ? "" : "rank 1: rank 0 gave up: rank 0: lost rank 2");
  }
}

TEST(SimulatedDeath, ARunMayEndBeforeTheLossIsKnown) {
  collective::VirtualCluster cluster(2, gigabit);
  cluster.kill_at(ms(1), 1);
  auto body = [&](collective::Communicator comm) -> Task<> { return cluster.runtime().sleep(ms(2)); };
  cluster.run(body);  // the detection's timer is left behind
  EXPECT_TRUE(cluster.network().dead(1));
}

}  // namespace
}  // namespace ripieno::transport
