#include "ripieno/transport/shaped.h"

#include <gtest/gtest.h>

#include "ripieno/core/async.h"
#include "ripieno/transport/simulated/network.h"
#include "tests/transport/abort_kit.h"

namespace ripieno::transport {
namespace {

using testing::bytes;
using testing::const_bytes;
using testing::message;
using testing::revoke_on_error;

/// Two ranks in virtual time, over links that take no time of their own.
struct Pair {
  explicit Pair(Shape shape) {
    for (int rank = 0; rank < 2; ++rank) endpoints.push_back(shaped(network.endpoint(rank), shape));
  }
  std::unique_ptr<Runtime> runtime = virtual_runtime(0);
  SimulatedNetwork network{*runtime, 2, SimulatedOptions{.link = {Duration(0), Duration(0)}}};
  std::vector<std::shared_ptr<Endpoint>> endpoints;
};

Task<> send_all(Endpoint* endpoint, int count, std::vector<Duration>* sent) {
  for (int i = 0; i < count; ++i) {
    std::vector<float> values(250, static_cast<float>(i));  // 1,000 bytes
    co_await endpoint->send(1, message(250, static_cast<std::uint32_t>(i % 2)), const_bytes(values));
    sent->push_back(endpoint->runtime().now());
  }
}

Task<> receive_all(Endpoint* endpoint, int count, std::vector<Duration>* received) {
  for (int i = 0; i < count; ++i) {
    std::vector<float> values(250);
    co_await endpoint->receive(0, message(250, static_cast<std::uint32_t>(i % 2)), bytes(values));
    EXPECT_EQ(values[100], static_cast<float>(i));
    received->push_back(endpoint->runtime().now());
  }
}

TEST(Shaped, MessagesQueueAtTheCardAndArriveADelayLater) {
  Pair pair({std::chrono::milliseconds(10), 1});  // 1,000 bytes take 8 ms
  std::vector<Duration> sent, received;
  pair.runtime->spawn("sender", send_all(pair.endpoints[0].get(), 4, &sent));
  pair.runtime->spawn("receiver", receive_all(pair.endpoints[1].get(), 4, &received));
  pair.runtime->run();
  for (int i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(seconds(sent[static_cast<std::size_t>(i)]), 0.008 * (i + 1));
    EXPECT_DOUBLE_EQ(seconds(received[static_cast<std::size_t>(i)]), 0.008 * (i + 1) + 0.010);
  }
}

TEST(Shaped, WithoutARateADelayHoldsNobodyUp) {
  Pair pair({std::chrono::milliseconds(10), 0});
  std::vector<Duration> sent, received;
  pair.runtime->spawn("sender", send_all(pair.endpoints[0].get(), 3, &sent));
  pair.runtime->spawn("receiver", receive_all(pair.endpoints[1].get(), 3, &received));
  pair.runtime->run();
  for (const Duration time : sent) EXPECT_EQ(time.count(), 0);
  for (const Duration time : received) EXPECT_DOUBLE_EQ(seconds(time), 0.010);
}

TEST(Shaped, AReceiverThatDoesNotTakeOneMessageHoldsUpNoOther) {
  auto sends = [](Endpoint* e) -> Task<> {
    const auto endpoint =
        shaped(std::shared_ptr<Endpoint>(std::shared_ptr<void>(), e), {std::chrono::milliseconds(1), 0});
    std::vector<float> big(1 << 20, 1), small(10, 2);
    Task<> first = endpoint->send(1, message(big.size(), 0), const_bytes(big));
    Task<> second = endpoint->send(1, message(10, 1), const_bytes(small));
    co_await both(e->runtime(), std::move(first), std::move(second), revoke_on_error);
    std::vector<float> done(1);
    co_await endpoint->receive(1, message(1, 2), bytes(done));
  };
  auto takes = [](Endpoint* e) -> Task<> {
    std::vector<float> big(1 << 20), small(10), done(1);
    co_await e->receive(0, message(10, 1), bytes(small));
    EXPECT_EQ(small[9], 2);
    co_await e->receive(0, message(big.size(), 0), bytes(big));
    EXPECT_EQ(big.back(), 1);
    co_await e->send(0, message(1, 2), const_bytes(done));
  };
  testing::expect_no_errors(testing::run_ranks(testing::Way::tcp, {sends, takes}));
}

TEST(Shaped, AnErrorOnTheWayEndsWhoWaits) {
  auto sends = [](Endpoint* e) -> Task<> {
    const auto endpoint =
        shaped(std::shared_ptr<Endpoint>(std::shared_ptr<void>(), e), {std::chrono::milliseconds(1), 0});
    std::vector<float> values(10);
    co_await endpoint->send(1, message(10, 0, "one"), const_bytes(values));
    co_await endpoint->receive(1, message(10, 3), bytes(values));
  };
  auto disagrees = [](Endpoint* e) -> Task<> {
    std::vector<float> values(10);
    co_await e->receive(0, message(10, 0, "another"), bytes(values));
  };
  const auto outcomes = testing::run_ranks(testing::Way::tcp, {sends, disagrees});
  EXPECT_EQ(outcomes[0].kind, ErrorKind::peer);
  EXPECT_EQ(outcomes[1].kind, ErrorKind::mismatch);
}

Task<> send_and_flush(Endpoint* endpoint, Duration* flushed) {
  std::vector<Duration> sent;
  EXPECT_TRUE(endpoint->has_flushed());
  co_await send_all(endpoint, 3, &sent);
  EXPECT_FALSE(endpoint->has_flushed());
  co_await endpoint->flush();
  EXPECT_TRUE(endpoint->has_flushed());
  *flushed = endpoint->runtime().now();
}

TEST(Shaped, IsFlushedWhenTheLastMessageHasArrived) {
  Pair pair({std::chrono::milliseconds(10), 0});
  std::vector<Duration> received;
  Duration flushed{0};
  pair.runtime->spawn("sender", send_and_flush(pair.endpoints[0].get(), &flushed));
  pair.runtime->spawn("receiver", receive_all(pair.endpoints[1].get(), 3, &received));
  pair.runtime->run();
  EXPECT_DOUBLE_EQ(seconds(flushed), 0.010);
}

constexpr Scope shaped_broken = 3;

Task<> abort_what_waits(Endpoint* endpoint) {
  std::vector<float> large(1 << 16, 1), small(250, 2);  // large: 0.2 s on the card
  Message broken = message(large.size()), also = message(large.size(), 1), whole = message(250);
  broken.channel.scope = also.channel.scope = shaped_broken;
  also.channel.purpose = observe::Purpose::control;
  testing::Side side(endpoint);
  const auto lost = side.start(endpoint->send(1, broken, const_bytes(large)));
  const auto lost_too = side.start(endpoint->send(1, also, const_bytes(large)));
  co_await endpoint->runtime().yield();
  endpoint->abort(shaped_broken, {0, 1}, testing::the_cause());
  co_await side.landed();
  EXPECT_EQ(side.end(lost) + ", " + side.end(lost_too), "the cause, the cause");
  const auto later = side.start(endpoint->send(1, broken, const_bytes(large)));
  co_await side.landed();
  EXPECT_EQ(side.end(later), "the cause");
  EXPECT_TRUE(endpoint->has_flushed());  // nothing of it is on its way any more
  co_await endpoint->send(1, whole, const_bytes(small));
  co_await endpoint->flush();
}

Task<> receive_small(Endpoint* endpoint) {
  std::vector<float> in(250);
  co_await endpoint->receive(0, message(250), bytes(in));
  EXPECT_EQ(in, std::vector<float>(250, 2));
}

TEST(Shaped, AnAbortEndsSendsAtOnceAndForgetsWhatIsOnItsWay) {
  auto sends = [](Endpoint* e) -> Task<> {
    const auto endpoint =
        shaped(std::shared_ptr<Endpoint>(std::shared_ptr<void>(), e), {std::chrono::milliseconds(1), 10});
    co_await abort_what_waits(endpoint.get());
    co_await testing::meet_all(e);
  };
  auto receives = [](Endpoint* e) -> Task<> {
    co_await receive_small(e);
    testing::Side side(e);
    Message broken = message(1);
    broken.channel.scope = shaped_broken;
    const auto end = side.start(e->receive(0, broken, Bytes()));
    co_await side.landed();
    EXPECT_EQ(side.end(end), testing::end_of(1, 0));
    co_await testing::meet_all(e);
  };
  testing::expect_no_errors(testing::run_ranks(testing::Way::tcp, {sends, receives}));
}

TEST(Shaped, AnAbortOfAPeerEndsSendsAtOnce) {
  auto sends = [](Endpoint* e) -> Task<> {
    const auto endpoint = shaped(std::shared_ptr<Endpoint>(std::shared_ptr<void>(), e), {Duration(0), 0.001});  // hours
    std::vector<float> large(1 << 20, 1);
    Message broken = message(large.size());
    broken.channel.scope = shaped_broken;
    testing::Side side(e);
    const auto lost = side.start(endpoint->send(1, broken, const_bytes(large)));
    co_await side.landed();
    EXPECT_EQ(side.end(lost), testing::end_of(0, 1));
    EXPECT_TRUE(endpoint->has_flushed());
    co_await testing::meet_all(e);
  };
  auto gives_up = [](Endpoint* e) -> Task<> {
    co_await testing::settle(e);
    e->abort(shaped_broken, {0, 1}, testing::the_cause());
    co_await testing::meet_all(e);
  };
  testing::expect_no_errors(testing::run_ranks(testing::Way::tcp, {sends, gives_up}));
}

TEST(Shaped, SaysWhatItIs) {
  Pair pair({std::chrono::milliseconds(5), 100});
  EXPECT_NE(pair.endpoints[0]->way(1).find(", shaped to 100 Mb/s 5 ms"), std::string::npos)
      << pair.endpoints[0]->way(1);
  EXPECT_TRUE(pair.endpoints[0]->engine().empty());
}

}  // namespace
}  // namespace ripieno::transport
