// Aborts of what only ranks that share memory have: payloads that are read where they lie, and the engine's all-reduce.
#include <gtest/gtest.h>

#include "ripieno/transport/shared/all_reduce.h"
#include "tests/transport/abort_kit.h"
#include "tests/transport/stranger.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;
using Where = WatchedNumbers::Where;

constexpr Scope ends = 5, stays = 7;
#ifdef __SANITIZE_THREAD__
constexpr int calls_under_way = 2;
#else
constexpr int calls_under_way = 6;
#endif
constexpr std::size_t placed = 50'000;  // numbers; large enough to be read where they lie

TEST(SharedAbort, ASenderOfWhatThePeerMayBeReadingWaitsForIt) {
  std::latch has_aborted{1}, has_looked{1};
  auto sender = [&](Endpoint* e) -> Task<> {
    Side side(e);
    const auto broken = side.start(send_filled(e, 1, in_scope(ends, placed), 1, Where::registered));
    const auto whole = side.start(send_filled(e, 1, in_scope(stays, placed), 2, Where::registered));
    co_await settle(e);
    e->abort(ends, everyone(e), the_cause());
    co_await settle(e);
    EXPECT_EQ(side.end(broken), "");  // rank 1, which does nothing now, has not given its ticket back
    has_aborted.count_down();
    co_await side.landed();
    EXPECT_EQ(side.end(broken), "the cause");
    EXPECT_EQ(side.end(whole), "done");
    co_await meet_all(e);
  };
  auto receiver = [&](Endpoint* e) -> Task<> {
    has_aborted.wait();
    Side side(e);
    co_await receive_filled(e, 0, in_scope(stays, placed), 2, Where::registered, false);
    const auto broken = side.start(receive_filled(e, 0, in_scope(ends, placed), 1, Where::registered, false));
    co_await side.landed();
    EXPECT_EQ(side.end(broken), end_of(1, 0));
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(Way::shared, {sender, receiver}, hasty()));
}

TEST(SharedAbort, WhatIsLeftOfABrokenOffMessageKnowsNothingOfItsOperation) {
  std::latch has_aborted{1};
  auto sender = [&](Endpoint* e) -> Task<> {
    Side side(e);
    {
      const std::string operation(19, 'o');  // freed before the link is lost, which AddressSanitizer would see
      Message large = in_scope(ends, 1'000'000);
      large.operation = operation;
      const auto broken = side.start(send_filled(e, 1, large, 1, Where::heap));
      co_await settle(e);
      e->abort(ends, {0}, the_cause());
      co_await settle(e);
      EXPECT_EQ(side.end(broken), "the cause");
    }
    has_aborted.count_down();
    std::vector<float> never(1);
    co_await e->receive(1, in_scope(stays, 1), bytes(never));
  };
  auto leaves = [&](Endpoint*) -> Task<> {
    has_aborted.wait();
    co_return;
  };
  const auto outcomes = run_ranks(Way::shared, {sender, leaves}, hasty(), true);
  EXPECT_NE(outcomes[0].error.find("lost rank 1"), std::string::npos) << outcomes[0].error;
}

TEST(SharedAbort, AReceiverGivesWhatLiesWithTheSenderBack) {
  auto sender = [](Endpoint* e) -> Task<> {
    Side side(e);
    std::vector<std::size_t> broken;
    for (std::uint32_t i = 0; i < max_tickets; ++i) {  // until all are free again, nothing more can be placed
      broken.push_back(side.start(send_filled(e, 1, in_scope(ends, placed, i), 1, Where::registered)));
    }
    const auto whole = side.start(send_filled(e, 1, in_scope(stays, placed), 2, Where::registered));
    co_await side.landed();
    for (const auto i : broken) expect_done_or(end_of(0, 1), side.end(i));
    EXPECT_EQ(side.end(whole), "done");
    co_await meet_all(e);
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    co_await settle(e);
    e->abort(ends, everyone(e), the_cause());
    co_await receive_filled(e, 0, in_scope(stays, placed), 2, Where::registered, true);
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(Way::shared, {sender, receiver}, hasty()));
}

/// Takes part in an all-reduce; what an error leaves is spoilt at once and kept.
Task<> reduce_filled(Endpoint* e, std::size_t count, std::uint32_t channel, Kept* kept) {
  WatchedNumbers numbers(e, count, Where::registered, 1);
  std::exception_ptr error;
  try {
    co_await e->run_engine(Collective::all_reduce, message(count, channel, "two-phase"), NumberSpan(numbers.values()));
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) {
    EXPECT_TRUE(numbers.are_all(static_cast<float>(e->size())));
    co_return;
  }
  numbers.fill(spoilt);
  kept->push_back(numbers);
  std::rethrow_exception(error);
}

/// What goes on beside: numbers round the ring of ranks, in another scope.
Task<> pass_round(Endpoint* e, int times) {
  const int next = (e->rank() + 1) % e->size(), last = (e->rank() + e->size() - 1) % e->size();
  for (int i = 0; i < times; ++i) {
    const auto value = static_cast<float>(i);
    Task<> sending = send_filled(e, next, in_scope(stays, placed), value, i % 2 ? Where::registered : Where::heap);
    Task<> receiving = receive_filled(e, last, in_scope(stays, placed), value, Where::heap, false);
    co_await both(e->runtime(), std::move(sending), std::move(receiving), revoke_on_error);
  }
}

/// Rank 2 gives up while the others are in calls that it takes no part in; whether it tells them by messages, too.
void abort_posted(bool tells) {
  auto posts = [](Endpoint* e) -> Task<> {
    Kept kept;
    Side side(e);
    std::vector<std::size_t> calls;
    for (std::uint32_t channel = 0; channel < 3; ++channel) {
      calls.push_back(side.start(reduce_filled(e, 1 + placed * channel, channel, &kept)));
    }
    const auto beside = side.start(pass_round(e, 20));
    co_await side.landed();
    for (const auto i : calls) EXPECT_EQ(side.end(i), end_of(e->rank(), 2));
    EXPECT_EQ(side.end(beside), "done");
    const auto later = side.start(reduce_filled(e, 10, 9, &kept));
    co_await side.landed();
    EXPECT_EQ(side.end(later), end_of(e->rank(), 2));
    co_await meet_all(e);
    EXPECT_EQ(kept.size(), 4u);
    expect_untouched(kept);
  };
  auto gives_up = [tells](Endpoint* e) -> Task<> {
    Side side(e);
    const auto beside = side.start(pass_round(e, 20));
    co_await settle(e);
    e->abort(0, tells ? everyone(e) : std::vector<int>(), the_cause());
    co_await side.landed();
    EXPECT_EQ(side.end(beside), "done");
    co_await meet_all(e);
  };
  expect_no_errors(run_ranks(Way::shared, {posts, posts, gives_up}, hasty()));
}

/// Rank 0 aborts a call that its peer has posted, too, and may be writing to, until the peer says that it has
/// `stopped`, or is done.
void abort_beside_a_writer(bool stopped) {
  std::latch posted{1}, has_looked{1};
  auto honest = [&](Endpoint* e) -> Task<> {
    posted.wait();
    Kept kept;
    Side side(e);
    const auto call = side.start(reduce_filled(e, 100, 0, &kept));
    co_await settle(e);
    e->abort(0, {}, the_cause());
    co_await settle(e);
    EXPECT_EQ(side.end(call), "");
    has_looked.count_down();
    co_await side.landed();
    EXPECT_EQ(side.end(call), "the cause");
  };
  const Outcome outcome = beside_stranger(honest, true, [&](SharedHub& hub, SharedPeer& zero) {
    const auto memory = hub.own()->arena->take(400);
    auto* slots = reinterpret_cast<AllReduceSlot*>(hub.own()->all_reduces);
    AllReduceSlot& own = slots[static_cast<std::size_t>(observe::Purpose::exchange) * all_reduce_channels];
    own.count = 100;
    own.place = hub.own()->arena->find(ConstBytes(memory.get(), 400)).value();
    std::string_view("two-phase").copy(own.operation.data(), own.operation.size() - 1);
    own.progress = 1;
    posted.count_down();
    has_looked.wait();
    if (stopped) {
      reinterpret_cast<AllReduceStop*>(slots + all_reduce_slots)->stopped = 1;
    } else {
      own.progress = 2;
    }
    zero.ring_bell();
  });
  EXPECT_EQ(outcome.error, "");
}

TEST(SharedAbort, OfACallWaitsUntilNobodyCanWriteToItsNumbers) {
  abort_beside_a_writer(true);
  abort_beside_a_writer(false);
}

TEST(SharedAbort, EndsCallsThatWait) { abort_posted(true); }
TEST(SharedAbort, EndsCallsAlsoWhereNoMessageTellsOfIt) { abort_posted(false); }

TEST(SharedAbort, OfACallThatIsUnderWayLeavesItsNumbersAlone) {
  for (int round = 0; round < calls_under_way; ++round) {
    const int gives_up = round % 3;
    auto body = [gives_up, round](Endpoint* e) -> Task<> {
      Kept kept;
      Side side(e);
      co_await meet_all(e);
      std::vector<std::size_t> calls;
      for (std::uint32_t channel = 0; channel < 3; ++channel) {
        calls.push_back(side.start(reduce_filled(e, 1 << 20, channel, &kept)));
      }
      const auto beside = side.start(pass_round(e, 5));
      if (e->rank() == gives_up) {
        for (int i = 0; i < 3 * round; ++i) co_await e->runtime().yield();
        e->abort(0, everyone(e), the_cause());
      }
      co_await side.landed();
      for (const auto i : calls) expect_done_or(end_of(e->rank(), gives_up), side.end(i));
      EXPECT_EQ(side.end(beside), "done");
      co_await meet_all(e);
      expect_untouched(kept);
    };
    expect_no_errors(run_ranks(Way::shared, {body, body, body}, hasty()));
  }
}

}  // namespace
}  // namespace ripieno::transport
