#include "ripieno/transport/simulated.h"

#include <gtest/gtest.h>

#include "ripieno/core/async.h"
#include "tests/support/cluster.h"

namespace ripieno {
namespace {

using testing::VirtualCluster;

constexpr Message note(std::uint64_t count, std::uint32_t channel = 0) {
  return {{Purpose::exchange, channel}, "note", DType::fp32, count};
}

const SimulatedOptions gigabit{.link = {Duration(50'000'000), Duration(8'000)}, .window_bytes = 4096};

Task<> one_way(Communicator comm, std::vector<float>* values) {
  const NumberSpan data(*values);
  if (comm.rank() == 0) {
    co_await comm.endpoint().send(1, note(data.count), data.bytes());
  } else {
    co_await comm.endpoint().receive(0, note(data.count), data, Reduce::add);
  }
}

TEST(SimulatedNetwork, TakesAlphaPlusBytesTimesBeta) {
  VirtualCluster cluster(2, gigabit);
  std::vector<std::vector<float>> values{{1, 2, 3}, {10, 20, 30}};
  const Duration took = cluster.run([&](Communicator comm) { return one_way(comm, &values[comm.rank()]); });
  EXPECT_EQ(took.count(), 50'000'000 + 12 * 8'000);
  EXPECT_EQ(values[1], (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(cluster.ledger(0).total().payload_sent, 12u);
  EXPECT_EQ(cluster.ledger(1).total().payload_received, 12u);
}

Task<> all_to_zero(Communicator comm, std::vector<std::byte>* memory) {
  if (comm.rank() > 0) {
    co_await comm.endpoint().send(0, note(250), *memory);
    co_return;
  }
  for (int peer = 1; peer < comm.size(); ++peer) co_await comm.endpoint().receive(peer, note(250), Bytes(*memory));
}

TEST(SimulatedNetwork, IncastQueuesAtTheReceiversCard) {
  VirtualCluster cluster(5, gigabit);
  std::vector<std::byte> memory(1000);
  const Duration took = cluster.run([&](Communicator comm) { return all_to_zero(comm, &memory); });
  EXPECT_EQ(took.count(), 50'000'000 + 4 * 1000 * 8'000);  // not 1000 * 8'000: four senders share one receiver
}

/// Twice 1000 bytes, a second after the network was made and at once after each other.
Task<> two_after_a_pause(Communicator comm, std::vector<std::byte>* memory, std::vector<Duration>* arrived) {
  co_await comm.runtime().sleep(from_seconds(1));
  for (int i = 0; i < 2; ++i) {
    if (comm.rank() == 0) co_await comm.endpoint().send(1, note(250), *memory);
    if (comm.rank() == 1) co_await comm.endpoint().receive(0, note(250), Bytes(*memory));
    if (comm.rank() == 1) arrived->push_back(comm.runtime().now() - from_seconds(1));
  }
}

TEST(SimulatedNetwork, ABurstPassesAtOnceAndWhatFollowsAtTheRate) {
  SimulatedOptions options = gigabit;
  options.burst_bytes = 1500;
  VirtualCluster cluster(2, options);
  std::vector<std::byte> memory(1000);
  std::vector<Duration> arrived;
  cluster.run([&](Communicator comm) { return two_after_a_pause(comm, &memory, &arrived); });
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[0].count(), 50'000'000);                // all of it
  EXPECT_EQ(arrived[1].count(), 50'000'000 + 500 * 8'000);  // a half, and the other at the rate
}

/// Rank 0 sends 16000 bytes each to the others, to all at once.
Task<> zero_to_all(Communicator comm, std::vector<std::byte>* memory, std::vector<Duration>* arrived) {
  if (comm.rank() > 0) {
    co_await comm.endpoint().receive(0, note(4000), Bytes(*memory));
    arrived->at(static_cast<std::size_t>(comm.rank())) = comm.runtime().now();
    co_return;
  }
  std::vector<Task<>> sends;
  for (int peer = 1; peer < comm.size(); ++peer) sends.push_back(comm.endpoint().send(peer, note(4000), *memory));
  Task<> together = all(comm.runtime(), std::move(sends), [](std::exception_ptr) {});
  co_await std::move(together);
}

TEST(SimulatedNetwork, MessagesToSeveralTakeTurns) {
  const auto arrivals = [](std::size_t turn_bytes) {
    SimulatedOptions options = gigabit;
    options.window_bytes = 1 << 20;
    options.turn_bytes = turn_bytes;
    VirtualCluster cluster(3, options);
    std::vector<std::byte> memory(16000);
    std::vector<Duration> arrived(3);
    cluster.run([&](Communicator comm) { return zero_to_all(comm, &memory, &arrived); });
    return arrived;
  };
  constexpr std::int64_t one = 16000 * 8'000, latency = 50'000'000;
  EXPECT_EQ(arrivals(0)[1].count(), latency + one);
  EXPECT_EQ(arrivals(0)[2].count(), latency + 2 * one);
  EXPECT_EQ(arrivals(1000)[1].count(), latency + 2 * one - one / 16);  // all but the other's last turn
  EXPECT_EQ(arrivals(1000)[2].count(), latency + 2 * one);
}

Task<> send_then_receive(Communicator comm, std::vector<std::byte>* memory) {
  const int peer = 1 - comm.rank();
  co_await comm.endpoint().send(peer, note(memory->size() / 4), *memory);
  co_await comm.endpoint().receive(peer, note(memory->size() / 4), Bytes(*memory));
}

TEST(SimulatedNetwork, SendingFirstOnBothSidesWorksOnlyWithinTheWindow) {
  VirtualCluster small(2, gigabit);
  std::vector<std::vector<std::byte>> memory(2, std::vector<std::byte>(4096));
  small.run([&](Communicator comm) { return send_then_receive(comm, &memory[comm.rank()]); });

  VirtualCluster large(2, gigabit);
  memory.assign(2, std::vector<std::byte>(4100));
  try {
    large.run([&](Communicator comm) { return send_then_receive(comm, &memory[comm.rank()]); });
    FAIL() << "a deadlock stayed hidden";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 waits for rank 1 to take note of 1025 fp32"), std::string::npos)
        << error.what();
  }
}

Task<> disagree(Communicator comm, std::string* caught) {
  std::vector<float> values(8);
  const NumberSpan data(values);
  if (comm.rank() == 0) {
    co_await comm.endpoint().send(1, note(8), data.bytes());
    co_return;
  }
  try {
    co_await comm.endpoint().receive(0, note(7), data.slice(0, 7), Reduce::add);
  } catch (const Error& error) {
    *caught = error.what();
  }
}

TEST(SimulatedNetwork, NamesWhatTheTwoSidesDisagreeAbout) {
  VirtualCluster cluster(2, gigabit);
  std::string caught;
  cluster.run([&](Communicator comm) { return disagree(comm, &caught); });
  EXPECT_EQ(caught,
            "rank 1 expects note of 7 fp32 on exchange channel 0 from rank 0, which sends note of 8 fp32 on exchange channel 0");
}

Task<> channels(Communicator comm, std::vector<int>* order) {
  std::byte byte[4] = {};
  if (comm.rank() == 0) {
    for (const std::uint32_t channel : {7u, 3u}) co_await comm.endpoint().send(1, note(1, channel), ConstBytes(byte));
    co_return;
  }
  for (const std::uint32_t channel : {3u, 7u}) {  // the other way round: channels do not wait for each other
    co_await comm.endpoint().receive(0, note(1, channel), Bytes(byte));
    order->push_back(static_cast<int>(channel));
  }
}

TEST(SimulatedNetwork, ChannelsDoNotWaitForEachOther) {
  VirtualCluster cluster(2, gigabit);
  std::vector<int> order;
  cluster.run([&](Communicator comm) { return channels(comm, &order); });
  EXPECT_EQ(order, (std::vector<int>{3, 7}));
}

Task<> lose(VirtualCluster* cluster, Communicator comm, std::vector<std::string>* caught) {
  if (comm.rank() == 2) {
    co_await cluster->runtime().sleep(Duration(1000));
    comm.endpoint().abort(0, {0, 1, 2}, std::make_exception_ptr(Error(ErrorKind::data, "rank 2's own error")));
    co_return;
  }
  std::byte byte[4];
  try {
    co_await comm.endpoint().receive(2, note(1), Bytes(byte));
  } catch (const Error& error) {
    (*caught)[comm.rank()] = error.what();
  }
}

TEST(SimulatedNetwork, AnAbortFailsWhoeverWaitsInItsScope) {
  VirtualCluster cluster(3, gigabit);
  std::vector<std::string> caught(2);
  cluster.run([&](Communicator comm) { return lose(&cluster, comm, &caught); });
  EXPECT_EQ(caught, (std::vector<std::string>{"rank 0: rank 2 gave up: rank 2's own error",
                                               "rank 1: rank 2 gave up: rank 2's own error"}));
}

// Ranks that die. Latency 50 us, 8 ns a byte; a death is known 10 ms later.

constexpr Duration ms(double n) { return Duration(static_cast<std::int64_t>(n * 1e9)); }

Task<> write(Communicator comm, int peer, std::int32_t value, std::uint32_t channel = 0) {
  const ConstBytes payload(reinterpret_cast<const std::byte*>(&value), sizeof value);
  co_await comm.endpoint().send(peer, note(1, channel), payload);
}

Task<std::int32_t> read(Communicator comm, int peer, std::uint32_t channel = 0) {
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

Task<> read_and_drop(Communicator comm, int peer) { co_await read(comm, peer); }

struct Loss {
  std::string pending, later, beside;
  Duration when{};
  std::vector<int> alive;
};

/// Ranks 0 and 1 wait: 0 for the rank that dies, 1 for 0, who lives.
Task<> meet_a_death(Communicator comm, std::vector<Loss>* losses) {
  Loss& loss = (*losses)[comm.rank()];
  loss.pending = co_await outcome(read_and_drop(comm, comm.rank() == 1 ? 0 : 1 + comm.rank() % 2));
  loss.when = comm.runtime().now();
  loss.later = co_await outcome(read_and_drop(comm, comm.rank() == 1 ? 0 : 1));
  loss.beside = co_await outcome(write(comm, comm.rank() == 1 ? 0 : 1, 1));
  loss.alive = comm.endpoint().survivors();
}

TEST(SimulatedDeath, FailsTheDeadAtOnceAndAllOthersAfterDetection) {
  VirtualCluster cluster(3, gigabit);
  std::vector<Loss> losses(3);
  cluster.kill_at(ms(2), 2);
  EXPECT_FALSE(cluster.network().dead(2));
  cluster.run_mortal([&](Communicator comm) { return meet_a_death(comm, &losses); });
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
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(cluster.ledger(rank).total(), Traffic());
}

Task<> ask_survivors(Communicator comm, std::vector<int>* values) {
  const int peer = 1 - comm.rank();
  co_await write(comm, peer, 7);
  const std::vector<int> alive = comm.endpoint().survivors();
  values->push_back(static_cast<int>(alive.size()));
  values->push_back(co_await read(comm, peer));
}

TEST(SimulatedDeath, SurvivorsWithoutALossChangesNothing) {
  VirtualCluster cluster(2, gigabit);
  std::vector<int> values;
  cluster.run([&](Communicator comm) { return ask_survivors(comm, &values); });
  EXPECT_EQ(values, (std::vector<int>{2, 2, 7, 7}));
}

Task<> last_words(Communicator comm, std::vector<std::string>* heard) {
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
  VirtualCluster cluster(2, gigabit);
  std::vector<std::string> heard;
  cluster.kill_at(ms(1.02), 1);
  cluster.run_mortal([&](Communicator comm) { return last_words(comm, &heard); });
  EXPECT_EQ(heard, (std::vector<std::string>{"11", "rank 0: lost rank 1"}));
}

/// Rank 2 dies at 1 ms. Before, rank 0 writes an old value to rank 1, who reads in the new epoch only.
Task<> two_epochs(Communicator comm, std::vector<int>* values, Duration late) {
  if (comm.rank() == 2) co_await read(comm, 0, 9);
  if (comm.rank() == 0) {
    co_await write(comm, 1, 100);
    co_await write(comm, 1, 101, 5);
    EXPECT_EQ(co_await outcome(read_and_drop(comm, 2)), "rank 0: lost rank 2");
    comm.endpoint().survivors();
    co_await write(comm, 1, 200);
    values->push_back(co_await read(comm, 1));
    co_return;
  }
  co_await comm.runtime().sleep(late);
  EXPECT_EQ(co_await outcome(read_and_drop(comm, 0)), "rank 1: lost rank 2");
  comm.endpoint().survivors();
  values->push_back(co_await read(comm, 0));
  co_await write(comm, 0, 300);
}

TEST(SimulatedDeath, EpochsDoNotMeet) {
  for (const Duration late : {ms(11.001), ms(11.02), ms(12), ms(40)}) {  // the new message is on its way, or waits
    VirtualCluster cluster(3, gigabit);
    std::vector<int> values;
    cluster.kill_at(ms(1), 2);
    cluster.run_mortal([&](Communicator comm) { return two_epochs(comm, &values, late); });
    EXPECT_EQ(values, (std::vector<int>{200, 300}));
    // Completed: three sends of rank 0 (two were dropped on the way), of which rank 1 received one.
    EXPECT_EQ(cluster.ledger(0).total().messages_sent, 3u);
    EXPECT_EQ(cluster.ledger(1).total().messages_received, 1u);
    EXPECT_EQ(cluster.ledger(0).total().messages_received, 1u);
  }
}

Task<> fill_the_window(Communicator comm, std::vector<Duration>* sent) {
  std::vector<std::byte> half(2048);
  if (comm.rank() == 2) co_await read(comm, 0);
  EXPECT_EQ(co_await outcome(read_and_drop(comm, 2)), text("rank ", comm.rank(), ": lost rank 2"));
  if (comm.rank() == 1) {
    co_await comm.runtime().sleep(ms(100));
    comm.endpoint().survivors();
    for (int i = 0; i < 3; ++i) co_await comm.endpoint().receive(0, note(512), Bytes(half));
    co_return;
  }
  comm.endpoint().survivors();
  for (int i = 0; i < 3; ++i) {
    co_await comm.endpoint().send(1, note(512), half);
    sent->push_back(comm.runtime().now());
  }
}

TEST(SimulatedDeath, EarlyMessagesWaitWithinTheWindow) {
  VirtualCluster cluster(3, gigabit);
  std::vector<Duration> sent;
  cluster.kill_at(ms(1), 2);
  cluster.run_mortal([&](Communicator comm) { return fill_the_window(comm, &sent); });
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[1], ms(11) + Duration(2 * 2048 * 8'000));  // two fit
  EXPECT_EQ(sent[2], ms(111) + Duration(2048 * 8'000));     // the third starts when rank 1 has come and asks
}

Task<> cut_off(Communicator comm, std::vector<std::byte>* memory, Duration* took) {
  if (comm.rank() == 2) co_await read(comm, 0);
  if (comm.rank() == 0) {
    EXPECT_NE(co_await outcome(comm.endpoint().send(1, note(2'500'000), *memory)), "");
  } else {
    EXPECT_NE(co_await outcome(comm.endpoint().receive(0, note(2'500'000), Bytes(*memory))), "");
  }
  comm.endpoint().survivors();
  const Duration start = comm.runtime().now();
  if (comm.rank() == 0) {
    co_await write(comm, 1, 5);
  } else {
    EXPECT_EQ(co_await read(comm, 0), 5);
    *took = comm.runtime().now() - start;
  }
}

TEST(SimulatedDeath, ALossCutsOffWhatIsUnderWayAndFreesTheCards) {
  VirtualCluster cluster(3, gigabit);
  std::vector<std::byte> memory(10'000'000);  // 80 ms on the wire
  Duration took{};
  cluster.kill_at(ms(1), 2);
  cluster.run_mortal([&](Communicator comm) { return cut_off(comm, &memory, &took); });
  EXPECT_EQ(took.count(), 50'000'000 + 4 * 8'000);
}

/// All to all, over and over, until it succeeds after the last death; what failed on the way.
Task<> recover(Communicator comm, std::vector<std::vector<std::string>>* log, int deaths) {
  auto& mine = (*log)[comm.rank()];
  for (;;) {
    std::string failure;
    const std::vector<int> alive = comm.endpoint().survivors();
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
  VirtualCluster cluster(ranks, gigabit);
  std::vector<std::vector<std::string>> log(ranks);
  for (const auto& [when, rank] : deaths) cluster.kill_at(when, rank);
  cluster.run([&](Communicator comm) { return recover(comm, &log, static_cast<int>(deaths.size())); });
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

Task<> abort_after_loss(Communicator comm, ErrorKind kind, std::vector<std::string>* ends) {
  if (comm.rank() == 2) co_await read(comm, 0);
  const std::string lost = co_await outcome(read_and_drop(comm, 2));
  if (comm.rank() == 0) comm.endpoint().abort(0, {0, 1}, std::make_exception_ptr(Error(kind, lost)));
  if (comm.rank() == 0 && kind != ErrorKind::peer) co_return;
  comm.endpoint().survivors();
  if (comm.rank() == 0) co_await write(comm, 1, 5);
  if (comm.rank() == 1) (*ends)[1] = co_await outcome(read_and_drop(comm, 0));
}

TEST(SimulatedDeath, AnAbortBecauseOfALossEndsNothingAnotherErrorDoes) {
  for (const ErrorKind kind : {ErrorKind::peer, ErrorKind::data}) {
    VirtualCluster cluster(3, gigabit);
    std::vector<std::string> ends(2);
    cluster.kill_at(ms(1), 2);
    cluster.run_mortal([&](Communicator comm) { return abort_after_loss(comm, kind, &ends); });
    EXPECT_EQ(ends[1], kind == ErrorKind::peer ? "" : "rank 1: rank 0 gave up: rank 0: lost rank 2");
  }
}

TEST(SimulatedDeath, ARunMayEndBeforeTheLossIsKnown) {
  VirtualCluster cluster(2, gigabit);
  cluster.kill_at(ms(1), 1);
  auto body = [&](Communicator comm) -> Task<> { return cluster.runtime().sleep(ms(2)); };
  cluster.run(body);  // the detection's timer is left behind
  EXPECT_TRUE(cluster.network().dead(1));
}

}  // namespace
}  // namespace ripieno
