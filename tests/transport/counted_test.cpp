#include "ripieno/transport/counted.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "ripieno/core/async.h"
#include "ripieno/transport/simulated/network.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using testing::every_way;
using testing::expect_no_errors;
using testing::revoke_on_error;
using testing::run_ranks;
using testing::Way;

constexpr int ranks = 3;
constexpr std::uint64_t messages = 20;

/// Who sent which of the messages on which channel to whom, and its bytes: no two messages of a channel have as many.
using Numbered = std::map<std::tuple<int, int, std::uint32_t, std::uint64_t>, std::uint64_t>;

struct Told {
  std::mutex mutex;
  Numbered sent, received;
};

std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < messages; ++i) all.push_back(1 + (i * 7) % messages);
  return all;
}

/// Every rank sends to every other, on three channels, all at once.
Task<> talk(std::shared_ptr<CountedEndpoint> endpoint, Told* told) {
  endpoint->on_message = [rank = endpoint->rank(), told](const observe::CarriedMessage& one) {
    const std::lock_guard lock(told->mutex);
    EXPECT_LE(one.begin, one.end);
    const bool sends = one.how == std::string_view("send");
    const int from = sends ? rank : one.peer, to = sends ? one.peer : rank;
    EXPECT_TRUE(
        (sends ? told->sent : told->received).insert({{from, to, one.channel, one.sequence}, one.bytes}).second);
  };
  std::vector<std::vector<float>> memory;
  std::vector<Task<>> under_way;
  memory.reserve(2 * ranks * messages * 3);
  for (const std::uint32_t channel : {0u, 5u, 64u}) {
    for (int peer = 0; peer < endpoint->size(); ++peer) {
      if (peer == endpoint->rank()) continue;
      for (const std::size_t size : sizes()) {
        const Message message = testing::message(size, channel);
        memory.emplace_back(size);
        under_way.push_back(endpoint->send(peer, message, testing::const_bytes(memory.back())));
        memory.emplace_back(size);
        under_way.push_back(endpoint->receive(peer, message, testing::bytes(memory.back())));
      }
    }
  }
  co_await all(endpoint->runtime(), std::move(under_way), revoke_on_error);
}

void expect_alike(const Told& told) {
  EXPECT_EQ(told.sent.size(), std::size_t{3 * messages * ranks * (ranks - 1)});
  EXPECT_EQ(told.sent, told.received);
}

TEST(Counted, BothSidesNumberMessagesAlike) {
  for (const Way way : every_way) {
    Told told;
    const auto body = [&told](Endpoint* e) {
      return talk(std::make_shared<CountedEndpoint>(std::shared_ptr<Endpoint>(std::shared_ptr<void>(), e)), &told);
    };
    expect_no_errors(run_ranks(way, {body, body, body}));
    expect_alike(told);
  }
}

TEST(Counted, BothSidesNumberMessagesAlikeInVirtualTime) {
  const auto runtime = virtual_runtime(0);
  SimulatedNetwork network(*runtime, ranks, {});
  Told told;
  for (int rank = 0; rank < ranks; ++rank)
    runtime->spawn(text("rank ", rank), talk(std::make_shared<CountedEndpoint>(network.endpoint(rank)), &told));
  runtime->run();
  expect_alike(told);
}

}  // namespace
}  // namespace ripieno::transport
