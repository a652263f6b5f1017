// One scope is aborted while another is in flight on the same links: in every state that an operation can be in.
#include <gtest/gtest.h>

#include "tests/transport/abort_kit.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;
using Where = WatchedNumbers::Where;

constexpr Scope broken_scope = 5, whole_scope = 7;
constexpr std::size_t past_buffers = 4 << 20;  // numbers; 16 MiB, more than sockets, rings and the credit hold
constexpr std::size_t few = 1000;

class ScopeAbort : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(By, ScopeAbort, ::testing::ValuesIn(every_way_and_time), way_of);

/// Whose ranks block their threads.
class AbortAcrossThreads : public ScopeAbort {};

INSTANTIATE_TEST_SUITE_P(By, AbortAcrossThreads, ::testing::ValuesIn(every_way), way_of);

/// Where messages are a stream of bytes, of which a part can have come; MPI's come whole (mpi_test.cpp).
class StreamAbort : public ScopeAbort {};

INSTANTIATE_TEST_SUITE_P(By, StreamAbort, ::testing::Values(Way::tcp, Way::shared, Way::own), way_of);

/// What two ranks that block their threads tell each other outside of their endpoints.
struct Signs {
  std::latch ready{1}, done{1};
};

TEST_P(StreamAbort, BySenderOfWhatIsHalfWrittenAndNotBegun) {
  Signs signs;
  auto sender = [&signs](Endpoint* e) -> Task<> {
    Side side(e);
    const auto half = side.start(send_filled(e, 1, in_scope(broken_scope, past_buffers), 1, Where::heap));
    const auto waits = side.start(send_filled(e, 1, in_scope(broken_scope, few), 2, Where::heap));
    const auto other = side.start(send_filled(e, 1, in_scope(whole_scope, past_buffers), 3, Where::heap));
    co_await settle(e);
    EXPECT_EQ(side.end(half) + side.end(waits) + side.end(other), "");
    e->abort(broken_scope, everyone(e), the_cause());
    for (int i = 0; i < 3; ++i) co_await e->runtime().yield();
    EXPECT_EQ(side.end(half), "the cause");  // at once: nobody has read a byte more
    EXPECT_EQ(side.end(waits), "the cause");
    signs.ready.count_down();
    co_await side.landed();
    EXPECT_EQ(side.end(other), "done");
    co_await meet_all(e);
  };
  auto receiver = [&signs](Endpoint* e) -> Task<> {
    signs.ready.wait();
    Side side(e);
    // What had begun is whole, whatever its sender has done to it since.
    const auto begun = side.start(receive_filled(e, 0, in_scope(broken_scope, past_buffers), 1, Where::heap, false));
    const auto dropped = side.start(receive_filled(e, 0, in_scope(broken_scope, few), 2, Where::heap, false));
    const auto other = side.start(receive_filled(e, 0, in_scope(whole_scope, past_buffers), 3, Where::heap, true));
    co_await side.landed();
    EXPECT_EQ(side.end(begun), "done");
    EXPECT_EQ(side.end(dropped), end_of(1, 0));
    EXPECT_EQ(side.end(other), "done");
    const auto later = side.start(send_filled(e, 0, in_scope(broken_scope, 1), 4, Where::heap));
    co_await side.landed();
    EXPECT_EQ(side.end(later), end_of(1, 0));
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(GetParam(), {sender, receiver}, hasty()));
}

TEST_P(StreamAbort, ByReceiverOfWhatIsHalfRead) {
  for (const bool adds : {false, true}) {
    Signs signs;
    auto sender = [&signs](Endpoint* e) -> Task<> {
      Side side(e);
      const auto half = side.start(send_filled(e, 1, in_scope(broken_scope, past_buffers), 1, Where::heap));
      const auto other = side.start(send_filled(e, 1, in_scope(whole_scope, past_buffers), 3, Where::heap));
      co_await settle(e);
      signs.ready.count_down();
      signs.done.wait();  // so nothing more is written
      co_await side.landed();
      expect_done_or(end_of(0, 1), side.end(half));
      EXPECT_EQ(side.end(other), "done");
      co_await meet_all(e);
    };
    auto receiver = [&signs, adds](Endpoint* e) -> Task<> {
      signs.ready.wait();
      Side side(e);
      WatchedNumbers numbers(e, past_buffers, Where::heap, 0);
      const Sink into(NumberSpan(numbers.values()), DType::fp32,
                      adds ? numeric::Reduce::add : numeric::Reduce::replace);
      const auto half = side.start(e->receive(0, in_scope(broken_scope, past_buffers), into));
      for (int i = 0; i < 1000 && numbers.values().front() == 0; ++i) co_await settle(e);
      EXPECT_EQ(numbers.values().front(), 1);
      EXPECT_EQ(numbers.values().back(), 0);
      e->abort(broken_scope, everyone(e), the_cause());
      numbers.fill(spoilt);
      const auto other = side.start(receive_filled(e, 0, in_scope(whole_scope, past_buffers), 3, Where::heap, adds));
      signs.done.count_down();
      co_await side.landed();
      EXPECT_EQ(side.end(half), "the cause");
      EXPECT_EQ(side.end(other), "done");
      EXPECT_TRUE(numbers.are_all(spoilt));
      co_await meet_all(e);
    };
    expect_no_errors(run_ranks(GetParam(), {sender, receiver}, hasty()));
  }
}

TEST_P(ScopeAbort, ByReceiverOfWhatExceedsTheCredit) {
  auto sender = [](Endpoint* e) -> Task<> {
    Side side(e);
    const auto paused = side.start(send_filled(e, 1, in_scope(broken_scope, past_buffers), 1, Where::heap));
    const auto other = side.start(send_filled(e, 1, in_scope(whole_scope, past_buffers), 3, Where::heap));
    co_await side.landed();
    expect_done_or(end_of(0, 1), side.end(paused));
    EXPECT_EQ(side.end(other), "done");
    co_await meet_all(e);
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    co_await settle(e);
    e->abort(broken_scope, everyone(e), the_cause());
    co_await receive_filled(e, 0, in_scope(whole_scope, past_buffers), 3, Where::heap, false);
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(GetParam(), {sender, receiver}, hasty()));
}

TEST_P(ScopeAbort, GivesTheCreditOfWhatNobodyAskedForBack) {
  constexpr std::size_t quarter = 60'000;  // numbers: a little less than a quarter of the credit
  auto sender = [](Endpoint* e) -> Task<> {
    for (int i = 0; i < 3; ++i) co_await send_filled(e, 1, in_scope(broken_scope, quarter), 1, Where::heap);
    co_await e->send(1, in_scope(whole_scope, 0, 1), ConstBytes());
    co_await e->receive(1, in_scope(whole_scope, 0, 1), Bytes());
    for (int i = 0; i < 3; ++i) co_await send_filled(e, 1, in_scope(whole_scope, quarter), 3, Where::heap);
    co_await e->send(1, in_scope(whole_scope, 0, 1), ConstBytes());  // comes through where those before have credit
    co_await meet_all(e);
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    co_await e->receive(0, in_scope(whole_scope, 0, 1), Bytes());  // so the three are here
    e->abort(broken_scope, everyone(e), the_cause());
    co_await e->send(0, in_scope(whole_scope, 0, 1), ConstBytes());
    co_await e->receive(0, in_scope(whole_scope, 0, 1), Bytes());
    for (int i = 0; i < 3; ++i) co_await receive_filled(e, 0, in_scope(whole_scope, quarter), 3, Where::heap, true);
    Side side(e);
    const auto gone = side.start(receive_filled(e, 0, in_scope(broken_scope, quarter), 1, Where::heap, true));
    co_await side.landed();
    EXPECT_EQ(side.end(gone), "the cause");
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(GetParam(), {sender, receiver}, hasty()));
}

TEST_P(AbortAcrossThreads, WhatIsSentBeforeItsSenderHearsIsDropped) {
  Signs signs;
  auto sender = [&signs](Endpoint* e) -> Task<> {
    signs.done.wait();  // rank 1 has aborted, which this rank has not looked for
    Side side(e);
    const auto late = side.start(send_filled(e, 1, in_scope(broken_scope, few), 1, Where::heap));
    const auto later = side.start(send_filled(e, 1, in_scope(broken_scope, past_buffers, 3), 1, Where::heap));
    const auto last = side.start(send_filled(e, 1, in_scope(broken_scope, 20'000, 4), 1, Where::registered));
    const auto other = side.start(send_filled(e, 1, in_scope(whole_scope, few), 3, Where::heap));
    co_await side.landed();
    expect_done_or(end_of(0, 1), side.end(late));
    expect_done_or(end_of(0, 1), side.end(later));
    EXPECT_EQ(side.end(other), "done");
    expect_done_or(end_of(0, 1), side.end(last));
    co_await meet_all(e);
  };
  auto receiver = [&signs](Endpoint* e) -> Task<> {
    e->abort(broken_scope, everyone(e), the_cause());
    signs.done.count_down();
    co_await receive_filled(e, 0, in_scope(whole_scope, few), 3, Where::heap, false);
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(GetParam(), {sender, receiver}, hasty()));
}

TEST_P(ScopeAbort, OfAMemberEndsThoseThatWaitForOthers) {
  // Rank 0 waits for 1 and 1 for 2, which gives up; 0 hears of it although it has nothing to do with 2.
  auto waits = [](Endpoint* e) -> Task<> {
    Side side(e);
    const auto in = side.start(receive_filled(e, e->rank() + 1, in_scope(broken_scope, few), 1, Where::heap, false));
    co_await side.landed();
    EXPECT_EQ(side.end(in), end_of(e->rank(), 2));
    co_await meet_all(e);
  };
  auto gives_up = [](Endpoint* e) -> Task<> {
    co_await settle(e);
    e->abort(broken_scope, everyone(e), the_cause());
    e->abort(broken_scope, everyone(e), std::make_exception_ptr(Error(ErrorKind::io, "not the first")));
    Side side(e);
    const auto out = side.start(send_filled(e, 1, in_scope(broken_scope, few), 1, Where::heap));
    co_await side.landed();
    EXPECT_EQ(side.end(out), "the cause");
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(GetParam(), {waits, waits, gives_up}, hasty()));
}

TEST_P(ScopeAbort, IsPassedOnByWhoWasTold) {
  // Rank 2 tells 1 alone, as one that dies meanwhile may; 1 aborts for that in its turn, and 0 hears who it was.
  auto waits = [](Endpoint* e) -> Task<> {
    Side side(e);
    const auto in = side.start(receive_filled(e, 1, in_scope(broken_scope, few), 1, Where::heap, false));
    co_await side.landed();
    EXPECT_EQ(side.end(in), end_of(0, 2));
    co_await meet_all(e);
  };
  auto passes_on = [](Endpoint* e) -> Task<> {
    std::vector<float> in(few);
    std::exception_ptr error;
    try {
      co_await e->receive(2, in_scope(broken_scope, few), bytes(in));
    } catch (const Error&) {
      error = std::current_exception();
    }
    e->abort(broken_scope, everyone(e), error);
    co_await meet_all(e);
  };
  auto gives_up = [](Endpoint* e) -> Task<> {
    e->abort(broken_scope, {1}, the_cause());
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(GetParam(), {waits, passes_on, gives_up}, hasty()));
}

TEST_P(ScopeAbort, TellsWhoIsLostAsAValue) {
  // Rank 2 tells 1, which passes it on to 0. What the words say does not count.
  const auto loss_on = [](Endpoint* e, int peer) -> Task<std::optional<Loss>> {
    Task<> waiting = e->receive(peer, in_scope(broken_scope, 0), Bytes());
    const std::exception_ptr error = co_await error_of(std::move(waiting));
    e->abort(broken_scope, everyone(e), error);
    co_return loss_of(error);
  };
  const auto hears = [&loss_on](Endpoint* e) -> Task<> {
    const std::optional<Loss> loss = co_await loss_on(e, e->rank() + 1);
    EXPECT_EQ(loss, (Loss{7, Lost::silent, 2})) << e->rank();
    co_await meet_all(e);
  };
  const auto gives_up = [](Endpoint* e) -> Task<> {
    const Error lie(Loss{7, Lost::silent}, "lost rank 1 (connection closed)");
    e->abort(broken_scope, {1}, std::make_exception_ptr(lie));
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(GetParam(), {hears, hears, gives_up}, hasty()));
}

TEST_P(ScopeAbort, OfOneWithAReasonOfItsOwnLosesThatOne) {
  const auto hears = [](Endpoint* e) -> Task<> {
    Task<> waiting = e->receive(1, in_scope(broken_scope, 0), Bytes());
    const std::exception_ptr error = co_await error_of(std::move(waiting));
    EXPECT_EQ(loss_of(error), (Loss{1, Lost::gave_up, 1}));
    co_await meet_all(e);
  };
  const auto gives_up = [](Endpoint* e) -> Task<> {
    e->abort(broken_scope, {0}, std::make_exception_ptr(Error(ErrorKind::data, "gave up on rank 0: lost rank 0")));
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(GetParam(), {hears, gives_up}, hasty()));
}

TEST_P(ScopeAbort, TellsOneLineOfBoundedLength) {
  auto gives_up = [](Endpoint* e) -> Task<> {
    const std::string words = text("rank 0: ", std::string(996, 'x'), "\u00e9\u00e9\u00e9\u00e9");
    e->abort(broken_scope, everyone(e), std::make_exception_ptr(std::runtime_error(words)));
    e->abort(whole_scope, everyone(e), std::make_exception_ptr(std::runtime_error("one\ttab\nanother line")));
    co_await meet_all(e);
  };
  auto hears = [](Endpoint* e) -> Task<> {
    Side side(e);
    const auto one = side.start(e->receive(0, in_scope(broken_scope, 0), Bytes()));
    const auto other = side.start(e->receive(0, in_scope(whole_scope, 0), Bytes()));
    co_await side.landed();
    EXPECT_EQ(side.end(one), text("rank 1: rank 0 gave up: ", std::string(996, 'x'), "\u00e9\u00e9"));
    EXPECT_EQ(side.end(other), "rank 1: rank 0 gave up: one tab");
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(GetParam(), {gives_up, hears}, hasty()));
}

}  // namespace
}  // namespace ripieno::transport
