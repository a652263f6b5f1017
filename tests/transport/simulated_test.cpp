#include "ripieno/transport/simulated/network.h"

#include <gtest/gtest.h>

#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/core/async.h"
#include "tests/transport/notes.h"

namespace ripieno::transport {
namespace {

using collective::VirtualCluster;
using testing::gigabit;
using testing::note;

Task<> one_way(collective::Communicator comm, std::vector<float>* values) {
  const NumberSpan data(*values);
  if (comm.rank() == 0) {
    co_await comm.endpoint().send(1, note(data.count), data.bytes());
  } else {
    co_await comm.endpoint().receive(0, note(data.count), data, numeric::Reduce::add);
  }
}

TEST(SimulatedNetwork, TakesAlphaPlusBytesTimesBeta) {
  collective::VirtualCluster cluster(2, gigabit);
  std::vector<std::vector<float>> values{{1, 2, 3}, {10, 20, 30}};
  const Duration took = cluster.run([&](collective::Communicator comm) { return one_way(comm, &values[comm.rank()]); });
  EXPECT_EQ(took.count(), 50'000'000 + 12 * 8'000);
  EXPECT_EQ(values[1], (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(cluster.ledger(0).total().payload_sent, 12u);
  EXPECT_EQ(cluster.ledger(1).total().payload_received, 12u);
}

Task<> all_to_zero(collective::Communicator comm, std::vector<std::byte>* memory) {
  if (comm.rank() > 0) {
    co_await comm.endpoint().send(0, note(250), *memory);
    co_return;
  }
  for (int peer = 1; peer < comm.size(); ++peer) co_await comm.endpoint().receive(peer, note(250), Bytes(*memory));
}

TEST(SimulatedNetwork, IncastQueuesAtTheReceiversCard) {
  collective::VirtualCluster cluster(5, gigabit);
  std::vector<std::byte> memory(1000);
  const Duration took = cluster.run([&](collective::Communicator comm) { return all_to_zero(comm, &memory); });
  EXPECT_EQ(took.count(), 50'000'000 + 4 * 1000 * 8'000);  // not 1000 * 8'000: four senders share one receiver
}

/// Twice 1000 bytes, a second after the network was made and at once after each other.
Task<> two_after_a_pause(collective::Communicator comm, std::vector<std::byte>* memory,
                         std::vector<Duration>* arrived) {
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
  collective::VirtualCluster cluster(2, options);
  std::vector<std::byte> memory(1000);
  std::vector<Duration> arrived;
  cluster.run([&](collective::Communicator comm) { return two_after_a_pause(comm, &memory, &arrived); });
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[0].count(), 50'000'000);                // all of it
  EXPECT_EQ(arrived[1].count(), 50'000'000 + 500 * 8'000);  // a half, and the other at the rate
}

TEST(SimulatedNetwork, TimeThatCannotBeCountedIsAnError) {
  SimulatedOptions slow = gigabit;
  slow.link.per_byte = from_seconds(1);
  collective::VirtualCluster cluster(5, slow);
  std::vector<std::byte> memory(1000);
  for (int round = 0; round < 2; ++round) {  // 4000 s each
    cluster.run([&](collective::Communicator comm) { return all_to_zero(comm, &memory); });
  }
  memory.resize(8'700'000);  // 100.7 days
  try {
    cluster.run([&](collective::Communicator comm) { return all_to_zero(comm, &memory); });
    FAIL() << "it was counted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("virtual time ends after 100 days"), std::string::npos) << error.what();
  }
}

/// Rank 0 sends 16000 bytes each to the others, to all at once.
Task<> zero_to_all(collective::Communicator comm, std::vector<std::byte>* memory, std::vector<Duration>* arrived) {
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
    collective::VirtualCluster cluster(3, options);
    std::vector<std::byte> memory(16000);
    std::vector<Duration> arrived(3);
    cluster.run([&](collective::Communicator comm) { return zero_to_all(comm, &memory, &arrived); });
    return arrived;
  };
  constexpr std::int64_t one = 16000 * 8'000, latency = 50'000'000;
  EXPECT_EQ(arrivals(0)[1].count(), latency + one);
  EXPECT_EQ(arrivals(0)[2].count(), latency + 2 * one);
  EXPECT_EQ(arrivals(1000)[1].count(), latency + 2 * one - one / 16);  // all but the other's last turn
  EXPECT_EQ(arrivals(1000)[2].count(), latency + 2 * one);
}

Task<> send_then_receive(collective::Communicator comm, std::vector<std::byte>* memory) {
  const int peer = 1 - comm.rank();
  co_await comm.endpoint().send(peer, note(memory->size() / 4), *memory);
  co_await comm.endpoint().receive(peer, note(memory->size() / 4), Bytes(*memory));
}

TEST(SimulatedNetwork, SendingFirstOnBothSidesWorksOnlyWithinTheWindow) {
  collective::VirtualCluster small(2, gigabit);
  std::vector<std::vector<std::byte>> memory(2, std::vector<std::byte>(4096));
  small.run([&](collective::Communicator comm) { return send_then_receive(comm, &memory[comm.rank()]); });

  collective::VirtualCluster large(2, gigabit);
  memory.assign(2, std::vector<std::byte>(4100));
  try {
    large.run([&](collective::Communicator comm) { return send_then_receive(comm, &memory[comm.rank()]); });
    FAIL() << "a deadlock stayed hidden";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 waits for rank 1 to take note of 1025 fp32"), std::string::npos)
        << error.what();
  }
}

Task<> disagree(collective::Communicator comm, std::string* caught) {
  std::vector<float> values(8);
  const NumberSpan data(values);
  if (comm.rank() == 0) {
    co_await comm.endpoint().send(1, note(8), data.bytes());
    co_return;
  }
  try {
    co_await comm.endpoint().receive(0, note(7), data.slice(0, 7), numeric::Reduce::add);
  } catch (const Error& error) {
    *caught = error.what();
  }
}

TEST(SimulatedNetwork, NamesWhatTheTwoSidesDisagreeAbout) {
  collective::VirtualCluster cluster(2, gigabit);
  std::string caught;
  cluster.run([&](collective::Communicator comm) { return disagree(comm, &caught); });
  EXPECT_EQ(caught,
            "rank 1 expects note of 7 fp32 on exchange channel 0 from rank 0, which sends note of 8 fp32 on exchange "
            "channel 0");
}

Task<> channels(collective::Communicator comm, std::vector<int>* order) {
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
  collective::VirtualCluster cluster(2, gigabit);
  std::vector<int> order;
  cluster.run([&](collective::Communicator comm) { return channels(comm, &order); });
  EXPECT_EQ(order, (std::vector<int>{3, 7}));
}

Task<> lose(collective::VirtualCluster* cluster, collective::Communicator comm, std::vector<std::string>* caught) {
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
  collective::VirtualCluster cluster(3, gigabit);
  std::vector<std::string> caught(2);
  cluster.run([&](collective::Communicator comm) { return lose(&cluster, comm, &caught); });
  EXPECT_EQ(caught, (std::vector<std::string>{"rank 0: rank 2 gave up: rank 2's own error",
                                              "rank 1: rank 2 gave up: rank 2's own error"}));
}

}  // namespace
}  // namespace ripieno::transport
