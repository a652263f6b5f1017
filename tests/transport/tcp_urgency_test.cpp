#include <atomic>

#include "ripieno/core/async.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

constexpr std::size_t large = 4 << 20;  // numbers; 16 MiB, more than socket buffers hold

Message urgent(std::size_t count, std::uint32_t channel, int urgency) {
  Message made = message(count, channel);
  made.urgency = urgency;
  return made;
}

Task<> receive_and_note(Endpoint* endpoint, Message message, std::vector<std::uint32_t>* order) {
  std::vector<float> in(message.count);
  co_await endpoint->receive(0, message, bytes(in));
  EXPECT_EQ(in, std::vector<float>(message.count, static_cast<float>(message.channel.id)));
  order->push_back(message.channel.id);
}

TEST(TcpUrgency, WhatIsUrgentOvertakesWhatWaitsButNotWhatHasBegun) {
  static std::atomic<bool> queued;
  queued = false;
  auto sender = [](Endpoint* e) -> Task<> {
    const std::vector<float> zeros(large, 0.0f), ones(large, 1.0f), twos(8, 2.0f), threes(8, 3.0f);
    std::vector<Task<>> sends;
    sends.push_back(e->send(1, urgent(large, 0, 0), const_bytes(zeros)));  // begins at once, and is not asked for
    sends.push_back(e->send(1, urgent(large, 1, 0), const_bytes(ones)));
    sends.push_back(e->send(1, urgent(8, 2, 1), const_bytes(twos)));
    sends.push_back(e->send(1, urgent(8, 3, 2), const_bytes(threes)));
    auto say_so = []() -> Task<> {
      queued = true;
      co_return;
    };
    sends.push_back(say_so());
    Task<> together = all(e->runtime(), std::move(sends), revoke_on_error);
    co_await std::move(together);
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    while (!queued) co_await e->runtime().sleep(std::chrono::milliseconds(1));
    std::vector<std::uint32_t> order;
    std::vector<Task<>> receives;
    for (std::uint32_t channel = 0; channel < 4; ++channel) {
      receives.push_back(receive_and_note(e, message(channel < 2 ? large : 8, channel), &order));
    }
    Task<> together = all(e->runtime(), std::move(receives), revoke_on_error);
    co_await std::move(together);
    const std::vector<std::uint32_t> expected{0, 3, 2, 1};
    EXPECT_EQ(order, expected);
  };
  SharedOptions options;
  options.link.unasked_bytes = 1 << 20;
  expect_no_errors(run_ranks(Way::tcp, {sender, receiver}, options));
}

}  // namespace
}  // namespace ripieno::transport
