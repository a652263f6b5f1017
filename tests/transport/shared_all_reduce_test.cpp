// The engine's own all-reduce between ranks that share memory; its bits and ledger:
// tests/collective/over_shared_memory_test.cpp.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <numeric>

#include "ripieno/core/async.h"
#include "ripieno/transport/counted.h"
#include "ripieno/transport/shared/all_reduce.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

Message reduction(std::uint64_t count, std::uint32_t channel = 0) { return message(count, channel, "two-phase"); }

void expect_every(std::span<const float> values, float expected) {
  EXPECT_EQ(std::count(values.begin(), values.end(), expected), static_cast<std::ptrdiff_t>(values.size()));
}

TEST(SharedAllReduce, SumsManyTimesOnMoreRanksThanCores) {
  auto body = [](Endpoint* e) -> Task<> {
    const int ranks = e->size();
    const auto registered = e->memory(40'000);
    std::vector<float> plain(10'000);
    for (int i = 0; i < 100; ++i) {
      const std::span<float> whole =
          i % 3 ? std::span(reinterpret_cast<float*>(registered.get()), 10'000) : std::span(plain);
      const auto values = whole.first(i % 2 ? 10'000 : i % 4 ? 5 : 300);
      std::fill(values.begin(), values.end(), static_cast<float>(e->rank() + i));
      co_await e->run_engine(Collective::all_reduce, reduction(values.size()), NumberSpan(values));
      expect_every(values, static_cast<float>(ranks * (ranks - 1) / 2 + ranks * i));
    }
  };
  const auto ranks = 2 * std::max(std::thread::hardware_concurrency(), 2u) + 1;
  expect_no_errors(run_ranks(Way::shared, std::vector<Body>(ranks, body)));
}

TEST(SharedAllReduce, ThereIsOneWhereAllShareMemoryAlone) {
  auto has = [](Endpoint* e) -> Task<> {
    EXPECT_TRUE(e->find_engine("two-phase", Collective::all_reduce, DType::fp32));
    EXPECT_FALSE(
        e->find_engine("two-phase", Collective::all_reduce, DType::fp32, reduction(1, all_reduce_channels).channel));
    co_return;
  };
  auto has_none = [](Endpoint* e) -> Task<> {
    EXPECT_FALSE(e->find_engine("two-phase", Collective::all_reduce, DType::fp32));
    const NumberSpan none(nullptr, 0, DType::fp32);
    EXPECT_THROW(co_await e->run_engine(Collective::all_reduce, reduction(0), none), Error);
  };
  expect_no_errors(run_ranks(Way::shared, {has, has, has}));
  expect_no_errors(run_ranks(Way::tcp, {has_none, has_none}));
  SharedOptions off;
  off.shares = false;
  expect_no_errors(run_ranks(Way::shared, {has_none, has_none}, off));
}

TEST(SharedAllReduce, WaitsForALateRankAndComputesMeanwhile) {
  auto late = [](Endpoint* e) -> Task<> {
    std::vector<float> values(3000, 1);
    const Duration a_while = std::chrono::milliseconds(30);
    co_await e->runtime().sleep(a_while);
    co_await e->run_engine(Collective::all_reduce, reduction(3000), NumberSpan(values));
    expect_every(values, 3);
  };
  auto computes = [](Endpoint* e) -> Task<> {
    std::vector<float> values(3000, 1);
    auto work = [] {
      volatile double x = 1;
      for (int k = 0; k < 2'000'000; ++k) x = x + k;
    };
    Flight computing(e->runtime(), e->runtime().offload(Duration(0), work));
    co_await e->run_engine(Collective::all_reduce, reduction(3000), NumberSpan(values));
    expect_every(values, 3);
    co_await computing.landed();
  };
  expect_no_errors(run_ranks(Way::shared, {late, computes, computes}));
}

TEST(SharedAllReduce, ChannelsDoNotWaitForEachOther) {
  auto body = [](Endpoint* e) -> Task<> {
    constexpr std::uint32_t channels = 9;
    std::vector<std::vector<float>> values(channels);
    std::vector<Task<>> under_way;
    for (std::uint32_t i = 0; i < channels; ++i) {
      const std::uint32_t channel = (i * (e->rank() + 1) + 4) % channels;  // each rank in an order of its own
      if (!values[channel].empty()) continue;
      values[channel].assign(100 + 5000 * channel, static_cast<float>(channel));
      under_way.push_back(e->run_engine(Collective::all_reduce, reduction(values[channel].size(), channel),
                                        NumberSpan(values[channel])));
    }
    for (std::uint32_t channel = 0; channel < channels; ++channel) {  // rank 2 has had channels 4, 7 and 1 so far
      if (!values[channel].empty()) continue;
      values[channel].assign(100 + 5000 * channel, static_cast<float>(channel));
      under_way.push_back(e->run_engine(Collective::all_reduce, reduction(values[channel].size(), channel),
                                        NumberSpan(values[channel])));
    }
    co_await all(e->runtime(), std::move(under_way), revoke_on_error);
    for (std::uint32_t channel = 0; channel < channels; ++channel) expect_every(values[channel], 3.0f * channel);
  };
  expect_no_errors(run_ranks(Way::shared, {body, body, body}));
}

Task<> reduce_once(Endpoint* e, std::size_t count) {
  std::vector<float> values(count);
  co_await e->run_engine(Collective::all_reduce, reduction(count), NumberSpan(values));
}
Body reduces(std::size_t count) {
  return [count](Endpoint* e) { return reduce_once(e, count); };
}

/// Seven numbers as messages of another route, on the same channel.
Task<> exchange_seven(Endpoint* e, bool sends_first) {
  std::vector<float> values(7);
  const Message ring = message(7, 0, "ring");
  if (sends_first) co_await e->send(0, ring, const_bytes(values));
  co_await e->receive(0, ring, bytes(values));
}

/// Some rank names both messages, and the others lose it or name them too.
void expect_mismatch(const std::vector<Outcome>& outcomes, const std::string& one, const std::string& other) {
  int named = 0;
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.kind) << "went on";
    if (outcome.kind != ErrorKind::mismatch) continue;
    ++named;
    EXPECT_NE(outcome.error.find(one), std::string::npos) << outcome.error;
    EXPECT_NE(outcome.error.find(other), std::string::npos) << outcome.error;
  }
  EXPECT_GT(named, 0);
}

TEST(SharedAllReduce, AMismatchNamesBoth) {
  expect_mismatch(run_ranks(Way::shared, {reduces(100), reduces(101)}, {}, true), "two-phase of 100 fp32",
                  "two-phase of 101 fp32");
  auto as_bf16 = [](Endpoint* e) -> Task<> {
    std::vector<float> values(100);
    const Message other = message(100, 0, "two-phase", DType::bf16);
    co_await e->run_engine(Collective::all_reduce, other, NumberSpan(values));
  };
  expect_mismatch(run_ranks(Way::shared, {reduces(100), as_bf16, reduces(100)}, {}, true), "100 fp32", "100 bf16");
}

TEST(SharedAllReduce, AMessageOnItsChannelIsAMismatch) {
  for (const bool sends_first : {true, false}) {
    auto messages = [sends_first](Endpoint* e) { return exchange_seven(e, sends_first); };
    expect_mismatch(run_ranks(Way::shared, {reduces(100), messages}, {}, true), "two-phase of 100 fp32",
                    "ring of 7 fp32");
  }
}

TEST(SharedAllReduce, MessagesMayFollowAndPrecedeOnTheSameChannel) {
  auto body = [](Endpoint* e) -> Task<> {
    const int next = (e->rank() + 1) % e->size(), last = (e->rank() + e->size() - 1) % e->size();
    std::vector<float> values(500), in(500);
    for (int i = 0; i < 300; ++i) {
      std::fill(values.begin(), values.end(), 1.0f);
      co_await e->run_engine(Collective::all_reduce, reduction(500), NumberSpan(values));
      expect_every(values, 3);
      Task<> sending = e->send(next, message(500), const_bytes(values));
      Task<> receiving = e->receive(last, message(500), bytes(in));
      co_await both(e->runtime(), std::move(sending), std::move(receiving), revoke_on_error);
      expect_every(in, 3);
    }
  };
  expect_no_errors(run_ranks(Way::shared, {body, body, body}));
}

TEST(SharedAllReduce, OneAtATimeOnAChannel) {
  auto body = [](Endpoint* e) -> Task<> {
    std::vector<float> first(10), second(10);
    Flight under_way(e->runtime(), e->run_engine(Collective::all_reduce, reduction(10), NumberSpan(first)));
    co_await e->runtime().yield();
    co_await e->run_engine(Collective::all_reduce, reduction(10), NumberSpan(second));
  };
  auto idle = [](Endpoint* e) -> Task<> {
    std::vector<float> in(1);
    co_await e->receive(0, message(1, 5), bytes(in));
  };
  const auto outcomes = run_ranks(Way::shared, {body, idle}, {}, true);
  EXPECT_EQ(outcomes[0].kind, ErrorKind::internal);
}

TEST(SharedAllReduce, ALostRankIsNamed) {
  auto leaves = [](Endpoint* e) -> Task<> {
    const Duration a_moment = std::chrono::milliseconds(5);
    co_await e->runtime().sleep(a_moment);
  };
  const auto outcomes = run_ranks(Way::shared, {reduces(100), leaves}, {}, true);
  EXPECT_EQ(outcomes[0].kind, ErrorKind::peer);
  EXPECT_EQ(outcomes[0].error,
            "rank 0: lost rank 1 (connection closed) while waiting for two-phase of 100 fp32 on exchange channel 0");
}

Task<> begin_and(Endpoint* e, std::function<void()> then) {
  std::vector<float> values(10, 1);
  Flight reducing(e->runtime(), e->run_engine(Collective::all_reduce, reduction(10), NumberSpan(values)));
  for (int i = 0; i < 10; ++i) co_await e->runtime().yield();  // by now it waits for the other rank
  then();
  co_await reducing.landed();
  expect_every(values, 2);
}

/// What rank 0 gets that has not looked since rank 1 has done its part, which then calls `end` and leaves.
std::string error_of_one_that_looks_late(const std::function<void(Endpoint*)>& end) {
  const auto fds = connect_all(2);
  std::promise<void> one_waits, zero_waits, one_has_left;
  std::string error;
  std::thread zero([&] {
    const auto runtime = real_runtime(0);
    const auto endpoint = make_endpoint(Way::shared, *runtime, 0, fds[0], {});
    one_waits.get_future().wait();
    // All but the end is done at once; rank 1 finds that, and its way out, while this rank does not look.
    auto look_away = [&] {
      zero_waits.set_value();
      one_has_left.get_future().wait();
    };
    runtime->spawn("rank 0", begin_and(endpoint.get(), look_away));
    try {
      runtime->run();
    } catch (const Error& lost) {
      error = lost.what();
    }
  });
  std::thread one([&] {
    auto runtime = real_runtime(1);
    auto endpoint = make_endpoint(Way::shared, *runtime, 1, fds[1], {});
    auto let_the_other_come = [&] {
      one_waits.set_value();
      zero_waits.get_future().wait();
    };
    runtime->spawn("rank 1", begin_and(endpoint.get(), let_the_other_come));
    runtime->run();
    end(endpoint.get());
    endpoint.reset();
    runtime.reset();  // with it goes what its handlers still held
    one_has_left.set_value();
  });
  zero.join();
  one.join();
  return error;
}

TEST(SharedAllReduce, WhoHasNotLookedYetIsDoneAlsoWhenTheOtherHasLeft) {
  EXPECT_EQ(error_of_one_that_looks_late([](Endpoint*) {}), "");
}

TEST(SharedAllReduce, WhoHasNotLookedYetIsDoneAlsoWhenTheOtherHasAborted) {
  const auto abort = [](Endpoint* e) {
    e->abort(0, {0, 1}, std::make_exception_ptr(Error(ErrorKind::peer, "rank 1 has ended")));
  };
  EXPECT_EQ(error_of_one_that_looks_late(abort), "");
}

TEST(SharedAllReduce, WhoIsDoneMayLeaveAtOnce) {
  for (int i = 0; i < 20; ++i)
    expect_no_errors(run_ranks(Way::shared, {reduces(5000), reduces(5000), reduces(5000)}, {}, true));
}

TEST(SharedAllReduce, TheWatchdogNamesWhatItWaitedFor) {
  SharedOptions options;
  options.link.timeout = std::chrono::milliseconds(50);
  auto idle = [](Endpoint*) -> Task<> { co_return; };
  const auto outcomes = run_ranks(Way::shared, {reduces(100), idle}, options);
  EXPECT_EQ(outcomes[0].error,
            "rank 0: gave up on rank 1 after 0.05 s of waiting for two-phase of 100 fp32 on exchange channel 0: rank 0 "
            "waits for 1, 1 does not answer");
}

TEST(SharedAllReduce, AnAbortEndsIt) {
  auto revokes = [](Endpoint* e) -> Task<> {
    auto give_up = [e] { e->abort(0, everyone(e), std::make_exception_ptr(Error(ErrorKind::data, "the cause"))); };
    e->runtime().call_at(e->runtime().now() + std::chrono::milliseconds(5), give_up);
    std::vector<float> values(100);
    const NumberSpan numbers(values);
    for (int i = 0; i < 2; ++i) {  // under way, and to come
      std::string why;
      try {
        co_await e->run_engine(Collective::all_reduce, reduction(100), numbers);
      } catch (const Error& error) {
        why = error.what();
      }
      EXPECT_EQ(why, "the cause");
    }
  };
  auto idle = [](Endpoint* e) -> Task<> {
    std::vector<float> in(1);
    co_await e->receive(0, message(1, 5), bytes(in));
  };
  const auto outcomes = run_ranks(Way::shared, {revokes, idle});
  EXPECT_EQ(outcomes[0].error, "");
  EXPECT_EQ(outcomes[1].error, "rank 1: rank 0 gave up: the cause");
}

}  // namespace
}  // namespace ripieno::transport
