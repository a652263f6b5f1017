// What the endpoint through shared memory does beyond what every kind of link does (linked_test.cpp).
#include "ripieno/transport/shared/endpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "ripieno/core/async.h"
#include "ripieno/transport/shared/ring.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

/// Floats in memory that peers can read.
struct Registered {
  Registered(Endpoint* e, std::size_t count, float value = 0)
      : memory(e->memory(count * 4)), values(reinterpret_cast<float*>(memory.get()), count) {
    std::fill(values.begin(), values.end(), value);
  }
  std::shared_ptr<std::byte> memory;
  std::span<float> values;
  Bytes bytes() const { return std::as_writable_bytes(values); }
};

void expect_all(std::span<const float> values, float expected) {
  EXPECT_EQ(std::count(values.begin(), values.end(), expected), static_cast<std::ptrdiff_t>(values.size()));
}

TEST(SharedEndpoint, IsChosenBetweenRanksOfOneHostAndSaysSo) {
  auto body = [](Endpoint* e) -> Task<> {
    for (int peer = 0; peer < e->size(); ++peer) {
      if (peer == e->rank()) continue;
      EXPECT_EQ(e->way(peer), "shared memory");
    }
    co_return;
  };
  expect_no_errors(run_ranks(Way::shared, {body, body, body}));
}

Task<> greet_all(Endpoint* e) {
  for (int peer = 0; peer < e->size(); ++peer) {
    if (peer == e->rank()) continue;
    std::vector<float> out(100'000, static_cast<float>(e->rank())), in(100'000);
    Task<> sending = e->send(peer, message(out.size()), const_bytes(out));
    Task<> receiving = e->receive(peer, message(in.size()), bytes(in));
    co_await both(e->runtime(), std::move(sending), std::move(receiving), revoke_on_error);
    expect_all(in, static_cast<float>(peer));
  }
}

TEST(SharedEndpoint, APairThatCannotShareStaysOnTcp) {
  // Rank 2 wants rings of another size: it talks tcp with both others, which share memory.
  const auto fds = connect_all(3);
  std::vector<std::string> ways(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto runtime = real_runtime(rank);
      SharedOptions options;
      if (rank == 2) options.ring_bytes = 128 << 10;
      auto endpoint = make_endpoint(Way::shared, *runtime, rank, fds[rank], options);
      for (int peer = 0; peer < 3; ++peer) ways[rank] += peer == rank ? "-; " : endpoint->way(peer) + "; ";
      runtime->spawn("greets", greet_all(endpoint.get()));
      EXPECT_NO_THROW(runtime->run());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ways[0], "-; shared memory; tcp (rings of 262144 and 131072 bytes); ");
  EXPECT_EQ(ways[1], "shared memory; -; tcp (rings of 262144 and 131072 bytes); ");
  EXPECT_EQ(ways[2], "tcp (rings of 131072 and 262144 bytes); tcp (rings of 131072 and 262144 bytes); -; ");
}

TEST(SharedEndpoint, PayloadsOfEveryKindAndSizeGoThroughASmallRing) {
  SharedOptions options;
  options.ring_bytes = 256;  // everything wraps, and most does not fit
  options.placed_bytes = 400;
  auto sender = [](Endpoint* e) -> Task<> {
    Registered registered(e, 2000);
    std::iota(registered.values.begin(), registered.values.end(), 0.0f);
    std::vector<float> plain(registered.values.begin(), registered.values.end());
    for (std::size_t count = 0; count < 300; ++count) {
      co_await e->send(1, message(count), ConstBytes(registered.bytes().data() + count * 4, count * 4));
      co_await e->send(1, message(count), ConstBytes(std::as_bytes(std::span(plain)).data() + count * 4, count * 4));
      co_await e->send(1, message(count), ConstBytes(static_cast<const std::byte*>(nullptr), count * 4));
    }
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    for (std::size_t count = 0; count < 300; ++count) {
      std::vector<float> expected(count), in(count), twice(count);
      std::iota(expected.begin(), expected.end(), static_cast<float>(count));
      co_await e->receive(0, message(count), bytes(in));
      EXPECT_EQ(in, expected);
      const NumberSpan sum{std::span<float>(in)};
      co_await e->receive(0, message(count), sum, numeric::Reduce::add);
      for (float& x : expected) x *= 2;
      EXPECT_EQ(in, expected);
      co_await e->receive(0, message(count), sum, numeric::Reduce::add);
      EXPECT_EQ(in, expected);
    }
  };
  expect_no_errors(run_ranks(Way::shared, {sender, receiver}, options));
}

TEST(SharedEndpoint, ASendOfWhatLiesThereReturnsOnceItIsTaken) {
  auto sender = [](Endpoint* e) -> Task<> {
    Registered out(e, 100'000);
    for (int i = 0; i < 50; ++i) {
      std::fill(out.values.begin(), out.values.end(), static_cast<float>(i));  // the last send must be over
      co_await e->send(1, message(100'000), out.bytes());
    }
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    Registered in(e, 100'000, 1);
    const NumberSpan sum(in.values);
    for (int i = 0; i < 50; ++i) co_await e->receive(0, message(100'000), sum, numeric::Reduce::add);
    expect_all(in.values, 1 + 49 * 50 / 2);
  };
  expect_no_errors(run_ranks(Way::shared, {sender, receiver}));
}

TEST(SharedEndpoint, MoreSendsAtOnceThanThereAreTickets) {
  constexpr int sends = 3 * static_cast<int>(max_tickets);
  auto sender = [](Endpoint* e) -> Task<> {
    Registered out(e, 4096 * sends);
    std::vector<Task<>> all_of_them;
    for (int i = 0; i < sends; ++i) {
      const auto part = out.values.subspan(static_cast<std::size_t>(i) * 4096, 4096);
      std::fill(part.begin(), part.end(), static_cast<float>(i));
      all_of_them.push_back(e->send(1, message(4096, static_cast<std::uint32_t>(i)), std::as_bytes(part)));
    }
    co_await all(e->runtime(), std::move(all_of_them), revoke_on_error);
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    std::vector<float> in(4096);
    for (int i = sends - 1; i >= 0; --i) {  // the last first: the others are taken in so that it can come
      co_await e->receive(0, message(4096, static_cast<std::uint32_t>(i)), bytes(in));
      expect_all(in, static_cast<float>(i));
    }
  };
  expect_no_errors(run_ranks(Way::shared, {sender, receiver}));
}

TEST(SharedEndpoint, AllSendFirstGoesForwardAlsoFromRegisteredMemory) {
  auto body = [](Endpoint* e) -> Task<> {
    const int next = (e->rank() + 1) % e->size(), last = (e->rank() + e->size() - 1) % e->size();
    Registered out(e, 1 << 18, static_cast<float>(e->rank())), in(e, 1 << 18);
    for (int i = 0; i < 5; ++i) {
      co_await e->send(next, message(1 << 18), out.bytes());
      co_await e->receive(last, message(1 << 18), in.bytes());
      expect_all(in.values, static_cast<float>(last));
    }
  };
  expect_no_errors(run_ranks(Way::shared, {body, body, body}));
}

TEST(SharedEndpoint, WhatLiesUnaskedWithAPeerIsFoundToMismatch) {
  auto sender = [](Endpoint* e) -> Task<> {
    Registered out(e, 10'000);
    co_await e->send(1, message(10'000, 3, "ring"), out.bytes());
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    co_await e->runtime().sleep(std::chrono::milliseconds(5));
    std::vector<float> in(20'000);
    co_await e->receive(0, message(20'000, 3, "tree"), bytes(in));
  };
  auto outcomes = run_ranks(Way::shared, {sender, receiver});
  EXPECT_EQ(outcomes[1].kind, ErrorKind::mismatch);
  EXPECT_EQ(
      outcomes[1].error,
      "rank 1 waits for tree of 20000 fp32 on exchange channel 3 (80000 bytes), but rank 0 sent ring of 10000 fp32 "
      "on exchange channel 3 (40000 bytes): the ranks do not do the same");
  EXPECT_EQ(outcomes[0].kind, ErrorKind::peer);
}

TEST(SharedEndpoint, WhatWasWithdrawnIsNotReceived) {
  // Rank 0 gives up its send while nobody has asked; then its memory holds something else.
  auto sender = [](Endpoint* e) -> Task<> {
    Registered out(e, 10'000, 1);
    auto give_up = [e] { e->abort(0, everyone(e), std::make_exception_ptr(Error(ErrorKind::data, "the cause"))); };
    asio::post(e->runtime().context(), give_up);
    try {
      co_await e->send(1, message(10'000), out.bytes());
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
    }
    std::fill(out.values.begin(), out.values.end(), 2.0f);
  };
  auto receiver = [](Endpoint* e) -> Task<> {
    co_await e->runtime().sleep(std::chrono::milliseconds(20));
    std::vector<float> in(10'000);
    co_await e->receive(0, message(10'000), bytes(in));
  };
  auto outcomes = run_ranks(Way::shared, {sender, receiver});
  EXPECT_EQ(outcomes[0].error, "");
  EXPECT_EQ(outcomes[1].kind, ErrorKind::peer);
  EXPECT_EQ(outcomes[1].error, "rank 1: rank 0 gave up: the cause");
}

TEST(SharedEndpoint, MemoryMayBeHeldLongerThanTheEndpoint) {
  std::vector<std::shared_ptr<std::byte>> kept(2);
  auto body = [&kept](Endpoint* e) -> Task<> {
    kept[e->rank()] = e->memory(1 << 20);
    return greet_all(e);
  };
  expect_no_errors(run_ranks(Way::shared, {body, body}));
  for (auto& memory : kept) std::fill_n(memory.get(), 1 << 20, std::byte{1});
}

std::size_t descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find("memfd:ripieno") != std::string::npos;
  return found;
}

TEST(SharedEndpoint, LeavesNoDescriptorAndNoMappingHoweverItEnds) {
  auto registered = [](Endpoint* e) -> Task<> {
    const int peer = 1 - e->rank();
    Registered out(e, 10'000, 1), in(e, 10'000);
    Task<> sending = e->send(peer, message(10'000), out.bytes());
    Task<> receiving = e->receive(peer, message(10'000), in.bytes());
    co_await both(e->runtime(), std::move(sending), std::move(receiving), revoke_on_error);
  };
  auto waits = [](Endpoint* e) -> Task<> {
    Registered in(e, 10'000);
    co_await e->receive(1 - e->rank(), message(10'000), in.bytes());
  };
  auto revokes = [](Endpoint* e) -> Task<> {
    Registered out(e, 10'000);
    co_await e->send(1 - e->rank(), message(10'000), out.bytes());
    e->abort(0, everyone(e), std::make_exception_ptr(Error(ErrorKind::data, "the cause")));
  };
  const std::size_t before = descriptors();
  EXPECT_EQ(mappings(), 0u);
  run_ranks(Way::shared, {registered, registered});
  run_ranks(Way::shared, {registered, waits}, {}, true);
  run_ranks(Way::shared, {revokes, waits});
  run_ranks(Way::shared, {revokes, revokes}, {.link = {.timeout = std::chrono::milliseconds(20)}});
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(mappings(), 0u);
}

TEST(SharedEndpoint, MoreRanksThanCoresGoForward) {
  auto body = [](Endpoint* e) -> Task<> {
    const int next = (e->rank() + 1) % e->size(), last = (e->rank() + e->size() - 1) % e->size();
    Registered out(e, 5000), in(e, 5000);
    for (int i = 0; i < 200; ++i) {
      const std::size_t count = i % 2 ? 5000 : 3;
      std::fill(out.values.begin(), out.values.end(), static_cast<float>(e->rank() * 1000 + i));
      Task<> sending = e->send(next, message(count), out.bytes().first(count * 4));
      Task<> receiving = e->receive(last, message(count), in.bytes().first(count * 4));
      co_await both(e->runtime(), std::move(sending), std::move(receiving), revoke_on_error);
      expect_all(in.values.first(count), static_cast<float>(last * 1000 + i));
    }
  };
  const auto ranks = 2 * std::max(std::thread::hardware_concurrency(), 4u) + 1;
  expect_no_errors(run_ranks(Way::shared, std::vector<Body>(ranks, body)));
}

TEST(SharedEndpoint, OffloadedWorkAndMessagesGoOnTogether) {
  auto body = [](Endpoint* e) -> Task<> {
    const int peer = 1 - e->rank();
    for (int i = 0; i < 50; ++i) {
      std::vector<float> out(2000, static_cast<float>(i)), in(2000);
      auto compute = [i] {
        volatile double x = 1;
        for (int k = 0; k < 20'000; ++k) x = x + k;
        return i;
      };
      const int computed = co_await e->runtime().offload(Duration(0), compute);
      EXPECT_EQ(computed, i);
      co_await e->send(peer, message(2000), const_bytes(out));
      co_await e->receive(peer, message(2000), bytes(in));
      expect_all(in, static_cast<float>(i));
    }
  };
  expect_no_errors(run_ranks(Way::shared, {body, body}));
}

}  // namespace
}  // namespace ripieno::transport
