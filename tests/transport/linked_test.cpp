// What holds for links of every kind.
#include "ripieno/transport/linked_endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <asio/detached.hpp>

#include "ripieno/core/async.h"
#include "ripieno/numeric/elementwise.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

class Linked : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(By, Linked, ::testing::ValuesIn(every_way_and_time), way_of);

TEST_P(Linked, PingPong) {
  auto ping = [](Endpoint* e) -> Task<> {
    for (int i = 0; i < 100; ++i) {
      std::vector<float> out(i, static_cast<float>(i)), in(i);
      co_await e->send(1, message(i), const_bytes(out));
      co_await e->receive(1, message(i), bytes(in));
      EXPECT_EQ(in, std::vector<float>(i, static_cast<float>(i) + 1));
    }
  };
  auto pong = [](Endpoint* e) -> Task<> {
    for (int i = 0; i < 100; ++i) {
      std::vector<float> in(i);
      co_await e->receive(0, message(i), bytes(in));
      for (float& x : in) x += 1;
      co_await e->send(0, message(i), const_bytes(in));
    }
  };
  expect_no_errors(run_ranks(GetParam(), {ping, pong}));
}

TEST_P(Linked, ChannelsDoNotWaitForEachOther) {
  constexpr int channels = 16;
  auto sender = [](Endpoint* e) -> Task<> {
    for (int c = 0; c < channels; ++c) {
      std::vector<float> out(1000 + c, static_cast<float>(c));
      co_await e->send(1, message(out.size(), c), const_bytes(out));
    }
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    for (int c = channels - 1; c >= 0; --c) {
      std::vector<float> in(1000 + c);
      co_await e->receive(0, message(in.size(), c), bytes(in));
      EXPECT_EQ(in, std::vector<float>(1000 + c, static_cast<float>(c)));
    }
  };
  expect_no_errors(run_ranks(GetParam(), {sender, receiver}));
}

TEST_P(Linked, BigMessagesInBothDirectionsAtOnce) {
  auto body = [](Endpoint* e) -> Task<> {
    const int peer = 1 - e->rank();
    const std::size_t count = 2 << 20;
    std::vector<float> out(count, static_cast<float>(e->rank() + 1)), in(count);
    Task<> sending = e->send(peer, message(count), const_bytes(out));
    Task<> receiving = e->receive(peer, message(count), bytes(in));
    co_await both(e->runtime(), std::move(sending), std::move(receiving), revoke_on_error);
    EXPECT_EQ(in, std::vector<float>(count, static_cast<float>(peer + 1)));
    // Even without both(): what comes unasked fits the credit.
    co_await e->send(peer, message(count), const_bytes(out));
    co_await e->receive(peer, message(count), bytes(in));
  };
  expect_no_errors(run_ranks(GetParam(), {body, body}));
}

// Received with `add` into fp32 (or fp64, where that is on the wire), from the wire and from what was kept.
template <DType wire>
Task<> add_body(Endpoint* e) {
  const std::size_t count = 300'001;  // several chunks of scratch memory, and not a multiple of one
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 64);
  const Message m = message(count, 0, "add", wire), go = message(0, 1);
  if (e->rank() == 0) {
    std::vector<std::byte> out(count * size_of(wire));
    numeric::convert(NumberSpan(out.data(), count, wire), NumberSpan(std::span(values)));
    co_await e->send(1, m, ConstBytes(out));
    co_await e->send(1, go, ConstBytes());
    co_await e->send(1, m, ConstBytes(out));
    co_await e->send(1, m, ConstBytes(out));
    co_return;
  }
  std::vector<std::conditional_t<wire == DType::fp64, double, float>> into(count, 1.0);
  co_await e->receive(0, go, Bytes());  // so the first message has been kept
  const NumberSpan span{std::span(into)};
  co_await e->receive(0, m, span, numeric::Reduce::add);
  co_await e->receive(0, m, span, numeric::Reduce::add);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(into[i], 1 + 2 * values[i]) << i;
  co_await e->receive(0, m, span, numeric::Reduce::replace);
  EXPECT_TRUE(std::equal(into.begin(), into.end(), values.begin()));
}

TEST_P(Linked, AddsAndConvertsEveryWireType) {
  expect_no_errors(run_ranks(GetParam(), {add_body<DType::fp32>, add_body<DType::fp32>}));
  expect_no_errors(run_ranks(GetParam(), {add_body<DType::fp64>, add_body<DType::fp64>}));
  expect_no_errors(run_ranks(GetParam(), {add_body<DType::fp16>, add_body<DType::fp16>}));
  expect_no_errors(run_ranks(GetParam(), {add_body<DType::bf16>, add_body<DType::bf16>}));
}

TEST_P(Linked, APayloadWithoutDataIsSentAsZeros) {
  auto sender = [](Endpoint* e) -> Task<> {
    const ConstBytes nothing(static_cast<const std::byte*>(nullptr), 400'000);
    co_await e->send(1, message(100'000), nothing);
    co_await e->send(1, message(100'000), nothing);
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    std::vector<float> in(100'000, 1.0f);
    co_await e->receive(0, message(in.size()), bytes(in));
    EXPECT_EQ(in, std::vector<float>(100'000));
    const NumberSpan nowhere(nullptr, 100'000, DType::fp32);
    co_await e->receive(0, message(in.size()), nowhere, numeric::Reduce::replace);
  };
  expect_no_errors(run_ranks(GetParam(), {sender, receiver}));
}

TEST_P(Linked, AMismatchNamesBothMessagesAndEndsTheConnection) {
  auto sender = [](Endpoint* e) -> Task<> {
    std::vector<float> values(100);
    co_await e->send(1, message(100, 3, "ring"), const_bytes(values));
    co_await e->receive(1, message(100), bytes(values));
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    std::vector<float> values(200);
    co_await e->receive(0, message(200, 3, "tree"), bytes(values));
  };
  auto outcomes = run_ranks(GetParam(), {sender, receiver});
  EXPECT_EQ(outcomes[1].kind, ErrorKind::mismatch);
  EXPECT_EQ(outcomes[1].error,
            "rank 1 waits for tree of 200 fp32 on exchange channel 3 (800 bytes), but rank 0 sent ring of 100 fp32 on "
            "exchange channel 3 (400 bytes): the ranks do not do the same");
  EXPECT_EQ(outcomes[0].kind, ErrorKind::peer);
  EXPECT_EQ(outcomes[0].error, "rank 0: rank 1 gave up: " + outcomes[1].error);
}

TEST_P(Linked, ASenderInTheMiddleOfAMessageIsToldWhyItsPeerGivesUp) {
  auto sender = [](Endpoint* e) -> Task<> {
    std::vector<float> values(8 << 20);
    co_await e->send(1, message(8 << 20, 3, "ring"), const_bytes(values));
    co_await e->receive(1, message(8 << 20), bytes(values));  // MPI may take all of a message before it is refused
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    std::vector<float> values(200);
    co_await e->receive(0, message(200, 3, "tree"), bytes(values));
  };
  auto outcomes = run_ranks(GetParam(), {sender, receiver});
  EXPECT_EQ(outcomes[1].kind, ErrorKind::mismatch);
  EXPECT_EQ(outcomes[0].error, "rank 0: rank 1 gave up: " + outcomes[1].error);
}

TEST_P(Linked, WhoGivesUpInTheMiddleOfItsOwnMessageSaysWhyBehindIt) {
  auto gives_up = [](Endpoint* e) -> Task<> {
    std::vector<float> values(8 << 20, 3.0F);
    Event sent(e->runtime());
    const auto send = [](Endpoint* from, const std::vector<float>* all, Event* over) -> Task<> {
      Task<> sending = from->send(1, message(8 << 20, 3, "ring"), const_bytes(*all));
      co_await error_of(std::move(sending));
      over->set();
    };
    asio::co_spawn(e->runtime().context(), send(e, &values, &sent), asio::detached);
    std::vector<float> other(200);
    Task<> receiving = e->receive(1, message(200), bytes(other));
    const std::exception_ptr error = co_await error_of(std::move(receiving));
    co_await sent.wait();
    co_await e->flush();
    std::rethrow_exception(error);
  };
  auto told = [](Endpoint* e) -> Task<> {
    std::vector<float> values(100);
    co_await e->send(0, message(100), const_bytes(values));
    co_await e->runtime().sleep(std::chrono::milliseconds(50));  // by now the other one's message is half written
    std::vector<float> all(8 << 20);
    co_await e->receive(0, message(8 << 20, 3, "ring"), bytes(all));
    EXPECT_EQ(std::count(all.begin(), all.end(), 3.0F), 8 << 20);
    co_await e->receive(0, message(100), bytes(values));
  };
  const auto outcomes = run_ranks(GetParam(), {gives_up, told});
  EXPECT_EQ(outcomes[0].kind, ErrorKind::mismatch);
  EXPECT_EQ(outcomes[1].error, "rank 1: rank 0 gave up: " + outcomes[0].error);
}

TEST_P(Linked, AMismatchOfWhatWasKeptIsFoundToo) {
  auto sender = [](Endpoint* e) -> Task<> {
    std::vector<float> values(100);
    co_await e->send(1, message(100, 3, "ring"), const_bytes(values));
    co_await e->send(1, message(0), ConstBytes());
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    std::vector<float> values(100);
    co_await e->receive(0, message(0), Bytes());
    const Message other = message(100, 3, "ring", DType::bf16);
    co_await e->receive(0, other, NumberSpan(std::span<float>(values)), numeric::Reduce::add);
  };
  auto outcomes = run_ranks(GetParam(), {sender, receiver});
  EXPECT_EQ(outcomes[1].kind, ErrorKind::mismatch);
}

TEST_P(Linked, ALostPeerIsNamedByThoseWhoWaitForIt) {
  auto leaves = [](Endpoint*) -> Task<> { co_return; };
  auto waits = [](Endpoint* e) -> Task<> {
    std::vector<float> in(10);
    co_await e->receive(0, message(10), bytes(in));
  };
  auto outcomes = run_ranks(GetParam(), {leaves, waits}, {}, true);
  EXPECT_EQ(outcomes[0].error, "");
  EXPECT_EQ(outcomes[1].kind, ErrorKind::peer);
  EXPECT_EQ(outcomes[1].error,
            "rank 1: lost rank 0 (connection closed) while waiting for test of 10 fp32 on exchange channel 0");
}

TEST_P(Linked, ALostPeerConcernsNobodyElse) {
  // Rank 0 leaves once both have its message. Ranks 1 and 2 go on; then each receives what 0 had sent.
  auto leaves = [](Endpoint* e) -> Task<> {
    std::vector<float> out(10, 7.0f);
    co_await e->send(1, message(10), const_bytes(out));
    co_await e->send(2, message(10), const_bytes(out));
  };
  auto goes_on = [](Endpoint* e) -> Task<> {
    const int other = 3 - e->rank();
    std::vector<float> out(10, 1.0f), in(10);
    for (int i = 0; i < 50; ++i) {
      co_await e->send(other, message(10), const_bytes(out));
      co_await e->receive(other, message(10), bytes(in));
    }
    co_await e->receive(0, message(10), bytes(in));
    EXPECT_EQ(in, std::vector<float>(10, 7.0f));
    bool thrown = false;
    try {
      co_await e->receive(0, message(10), bytes(in));
    } catch (const Error& error) {
      thrown = error.kind() == ErrorKind::peer;
    }
    EXPECT_TRUE(thrown);
    co_await e->send(other, message(10), const_bytes(out));
    co_await e->receive(other, message(10), bytes(in));
  };
  auto outcomes = run_ranks(GetParam(), {leaves, goes_on, goes_on}, {}, true);
  expect_no_errors(outcomes);
}

TEST_P(Linked, AnAbortEndsWhatIsUnderWayAndToComeOnAllMembers) {
  auto waits = [](Endpoint* e) -> Task<> {
    std::vector<float> in(10);
    co_await e->receive(0, message(10), bytes(in));
  };
  auto revokes = [](Endpoint* e) -> Task<> {
    std::vector<float> a(10), b(10);
    Task<> first = e->receive(1, message(10), bytes(a));
    Task<> second = e->receive(1, message(10, 1), bytes(b));
    Event started(e->runtime());
    auto revoke = [e] { e->abort(0, everyone(e), std::make_exception_ptr(Error(ErrorKind::data, "the cause"))); };
    asio::post(e->runtime().context(), revoke);
    std::string before, after;
    try {
      co_await both(e->runtime(), std::move(first), std::move(second), revoke_on_error);
    } catch (const Error& error) {
      before = error.what();
    }
    try {
      co_await e->send(1, message(10), const_bytes(a));
    } catch (const Error& error) {
      after = error.what();
    }
    EXPECT_EQ(before, "the cause");
    EXPECT_EQ(after, "the cause");
  };
  auto outcomes = run_ranks(GetParam(), {revokes, waits});
  EXPECT_EQ(outcomes[0].error, "");
  EXPECT_EQ(outcomes[1].kind, ErrorKind::peer);
  EXPECT_EQ(outcomes[1].error, "rank 1: rank 0 gave up: the cause");
}

TEST_P(Linked, BeyondTheCreditReadingPausesUntilAReceiveIsPosted) {
  SharedOptions options;
  options.link.unasked_bytes = 1 << 20;
  constexpr int messages = 40;
  auto sender = [](Endpoint* e) -> Task<> {
    for (int i = 0; i < messages; ++i) {
      std::vector<float> out(64 << 10, static_cast<float>(i));
      co_await e->send(1, message(out.size()), const_bytes(out));
    }
    std::vector<float> big(1 << 20, 99.0f);  // four times the credit
    co_await e->send(1, message(big.size(), 1), const_bytes(big));
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    for (int i = 0; i < messages; ++i) {
      if (i % 8 == 0) co_await e->runtime().sleep(std::chrono::milliseconds(5));
      std::vector<float> in(64 << 10);
      co_await e->receive(0, message(in.size()), bytes(in));
      EXPECT_EQ(in, std::vector<float>(64 << 10, static_cast<float>(i)));
    }
    co_await e->runtime().sleep(std::chrono::milliseconds(5));
    std::vector<float> big(1 << 20);
    co_await e->receive(0, message(big.size(), 1), bytes(big));
    EXPECT_EQ(big, std::vector<float>(1 << 20, 99.0f));
  };
  expect_no_errors(run_ranks(GetParam(), {sender, receiver}, options));
}

TEST_P(Linked, TheCreditIsNotExceeded) {
  // With nobody asking, a sender of far more than credit and socket buffers together cannot finish.
  SharedOptions options;
  options.link.unasked_bytes = 1 << 20;
  options.link.timeout = std::chrono::milliseconds(200);
  auto sender = [](Endpoint* e) -> Task<> {
    const ConstBytes nothing(static_cast<const std::byte*>(nullptr), 256 << 10);
    for (int i = 0; i < 1000; ++i) co_await e->send(1, message(64 << 10), nothing);
  };
  auto idle = [](Endpoint* e) -> Task<> {
    std::vector<float> in(1);
    co_await e->receive(0, message(1, 1), bytes(in));
  };
  auto outcomes = run_ranks(GetParam(), {sender, idle}, options);
  EXPECT_EQ(outcomes[0].kind, ErrorKind::peer);
  EXPECT_EQ(outcomes[1].kind, ErrorKind::peer);
}

TEST_P(Linked, TheWatchdogNamesWhatItWaitedFor) {
  SharedOptions options;
  options.link.timeout = std::chrono::milliseconds(50);
  auto silent = [](Endpoint*) -> Task<> { co_return; };
  auto waits = [](Endpoint* e) -> Task<> {
    std::vector<float> in(10);
    co_await e->receive(0, message(10, 2), bytes(in));
  };
  auto outcomes = run_ranks(GetParam(), {silent, waits}, options);
  EXPECT_EQ(outcomes[1].kind, ErrorKind::peer);
  const bool answers = GetParam() == Way::virtual_links;  // whose runtime all ranks share
  EXPECT_EQ(outcomes[1].error,
            text("rank 1: gave up on rank 0 after 0.05 s of waiting for test of 10 fp32 on exchange channel 2: rank 1 "
                 "waits for 0, 0 ",
                 answers ? "for nobody: busy, or stuck, outside of exchanges" : "does not answer"));
}

TEST_P(Linked, TheWatchdogLooksForSilenceNotForWaiting) {
  SharedOptions options;
  options.link.timeout = std::chrono::milliseconds(400);
  const auto pauses = 50;  // of 20 ms: together more than the timeout, each far less
  auto talks = [](Endpoint* e) -> Task<> {
    std::vector<float> out(10);
    for (int i = 0; i < pauses; ++i) {
      co_await e->runtime().sleep(std::chrono::milliseconds(20));
      co_await e->send(1, message(10, 1), bytes(out));
    }
    co_await e->send(1, message(10, 2), bytes(out));
  };
  auto waits = [](Endpoint* e) -> Task<> {
    std::vector<float> last(10), in(10);
    Flight waiting(e->runtime(), e->receive(0, message(10, 2), bytes(last)));
    for (int i = 0; i < pauses; ++i) co_await e->receive(0, message(10, 1), bytes(in));
    co_await waiting.landed();
  };
  expect_no_errors(run_ranks(GetParam(), {talks, waits}, options));
}

TEST_P(Linked, ThreeRanksExchangeWithEachOther) {
  auto body = [](Endpoint* e) -> Task<> {
    std::vector<std::vector<float>> in(e->size(), std::vector<float>(5000));
    std::vector<float> out(5000, static_cast<float>(e->rank()));
    std::vector<Task<>> tasks;
    for (int peer = 0; peer < e->size(); ++peer) {
      if (peer == e->rank()) continue;
      tasks.push_back(e->send(peer, message(5000), const_bytes(out)));
      tasks.push_back(e->receive(peer, message(5000), bytes(in[peer])));
    }
    co_await all(e->runtime(), std::move(tasks), revoke_on_error);
    for (int peer = 0; peer < e->size(); ++peer) {
      const float sent = peer == e->rank() ? 0.0f : static_cast<float>(peer);
      EXPECT_EQ(in[peer], std::vector<float>(5000, sent));
    }
  };
  expect_no_errors(run_ranks(GetParam(), {body, body, body}));
}

}  // namespace
}  // namespace ripieno::transport
