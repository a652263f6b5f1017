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

Task<> one_way(Group group, std::vector<float>* values) {
  const FloatSpan data(*values);
  if (group.rank() == 0) {
    co_await group.endpoint().send(1, note(data.count), data.bytes());
  } else {
    co_await group.endpoint().receive(0, note(data.count), data, Reduce::add);
  }
}

TEST(SimulatedNetwork, TakesAlphaPlusBytesTimesBeta) {
  VirtualCluster cluster(2, gigabit);
  std::vector<std::vector<float>> values{{1, 2, 3}, {10, 20, 30}};
  const Duration took = cluster.run([&](Group group) { return one_way(group, &values[group.rank()]); });
  EXPECT_EQ(took.count(), 50'000'000 + 12 * 8'000);
  EXPECT_EQ(values[1], (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(cluster.ledger(0).total().payload_sent, 12u);
  EXPECT_EQ(cluster.ledger(1).total().payload_received, 12u);
}

Task<> all_to_zero(Group group, std::vector<std::byte>* memory) {
  if (group.rank() > 0) {
    co_await group.endpoint().send(0, note(250), *memory);
    co_return;
  }
  for (int peer = 1; peer < group.size(); ++peer) co_await group.endpoint().receive(peer, note(250), Bytes(*memory));
}

TEST(SimulatedNetwork, IncastQueuesAtTheReceiversCard) {
  VirtualCluster cluster(5, gigabit);
  std::vector<std::byte> memory(1000);
  const Duration took = cluster.run([&](Group group) { return all_to_zero(group, &memory); });
  EXPECT_EQ(took.count(), 50'000'000 + 4 * 1000 * 8'000);  // not 1000 * 8'000: four senders share one receiver
}

Task<> send_then_receive(Group group, std::vector<std::byte>* memory) {
  const int peer = 1 - group.rank();
  co_await group.endpoint().send(peer, note(memory->size() / 4), *memory);
  co_await group.endpoint().receive(peer, note(memory->size() / 4), Bytes(*memory));
}

TEST(SimulatedNetwork, SendingFirstOnBothSidesWorksOnlyWithinTheWindow) {
  VirtualCluster small(2, gigabit);
  std::vector<std::vector<std::byte>> memory(2, std::vector<std::byte>(4096));
  small.run([&](Group group) { return send_then_receive(group, &memory[group.rank()]); });

  VirtualCluster large(2, gigabit);
  memory.assign(2, std::vector<std::byte>(4100));
  try {
    large.run([&](Group group) { return send_then_receive(group, &memory[group.rank()]); });
    FAIL() << "a deadlock stayed hidden";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 waits for rank 1 to take note of 1025 fp32"), std::string::npos)
        << error.what();
  }
}

Task<> disagree(Group group, std::string* caught) {
  std::vector<float> values(8);
  const FloatSpan data(values);
  if (group.rank() == 0) {
    co_await group.endpoint().send(1, note(8), data.bytes());
    co_return;
  }
  try {
    co_await group.endpoint().receive(0, note(7), data.slice(0, 7), Reduce::add);
  } catch (const Error& error) {
    *caught = error.what();
  }
}

TEST(SimulatedNetwork, NamesWhatTheTwoSidesDisagreeAbout) {
  VirtualCluster cluster(2, gigabit);
  std::string caught;
  cluster.run([&](Group group) { return disagree(group, &caught); });
  EXPECT_EQ(caught,
            "rank 1 expects note of 7 fp32 on exchange channel 0 from rank 0, which sends note of 8 fp32 on exchange channel 0");
}

Task<> channels(Group group, std::vector<int>* order) {
  std::byte byte[4] = {};
  if (group.rank() == 0) {
    for (const std::uint32_t channel : {7u, 3u}) co_await group.endpoint().send(1, note(1, channel), ConstBytes(byte));
    co_return;
  }
  for (const std::uint32_t channel : {3u, 7u}) {  // the other way round: channels do not wait for each other
    co_await group.endpoint().receive(0, note(1, channel), Bytes(byte));
    order->push_back(static_cast<int>(channel));
  }
}

TEST(SimulatedNetwork, ChannelsDoNotWaitForEachOther) {
  VirtualCluster cluster(2, gigabit);
  std::vector<int> order;
  cluster.run([&](Group group) { return channels(group, &order); });
  EXPECT_EQ(order, (std::vector<int>{3, 7}));
}

Task<> lose(VirtualCluster* cluster, Group group, std::vector<std::string>* caught) {
  if (group.rank() == 2) {
    co_await cluster->runtime().sleep(Duration(1000));
    group.endpoint().revoke(std::make_exception_ptr(Error(ErrorKind::data, "rank 2's own error")));
    co_return;
  }
  std::byte byte[4];
  try {
    co_await group.endpoint().receive(2, note(1), Bytes(byte));
  } catch (const Error& error) {
    (*caught)[group.rank()] = error.what();
  }
}

TEST(SimulatedNetwork, RevokingARankFailsWhoeverWaitsForIt) {
  VirtualCluster cluster(3, gigabit);
  std::vector<std::string> caught(2);
  cluster.run([&](Group group) { return lose(&cluster, group, &caught); });
  EXPECT_EQ(caught, (std::vector<std::string>{"rank 0: lost rank 2", "rank 1: lost rank 2"}));
}

}  // namespace
}  // namespace ripieno
