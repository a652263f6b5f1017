// Links in virtual time: delays, ends, stalls and cuts, all from one seed.
#include "ripieno/transport/simulated/linked_network.h"

#include <gtest/gtest.h>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/async.h"
#include "ripieno/transport/counted.h"

namespace ripieno::transport {
namespace {

using collective::Communicator;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Ranks that each run something over one network.
struct LinkedRanks {
  explicit LinkedRanks(int ranks, LinkedNetworkOptions options = {}, std::uint64_t seed = 1)
      : runtime(virtual_runtime(seed)), network(*runtime, ranks, options), ends(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank)
      endpoints.push_back(std::make_shared<CountedEndpoint>(network.endpoint(rank)));
  }
  /// How each ended: null, or with an error.
  void run(const std::function<Task<>(std::shared_ptr<Endpoint>)>& body) {
    for (std::size_t rank = 0; rank < endpoints.size(); ++rank)
      runtime->spawn(text("rank ", rank), note(body(endpoints[rank]), &ends[rank]));
    runtime->run();
  }
  static Task<> note(Task<> task, std::exception_ptr* end) { *end = co_await error_of(std::move(task)); }

  std::string said(int rank) const {
    try {
      if (ends[static_cast<std::size_t>(rank)]) std::rethrow_exception(ends[static_cast<std::size_t>(rank)]);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  std::optional<Loss> loss(int rank) const { return loss_of(ends[static_cast<std::size_t>(rank)]); }

  std::unique_ptr<Runtime> runtime;
  LinkedNetwork network;
  std::vector<std::shared_ptr<Endpoint>> endpoints;
  std::vector<std::exception_ptr> ends;
};

Message numbers(std::uint64_t count, std::uint32_t channel) {
  return {{observe::Purpose::exchange, channel}, "numbers", DType::fp32, count};
}

/// Sums that all ranks agree on, step by step.
Task<> sums(std::shared_ptr<Endpoint> endpoint, int steps) {
  Communicator comm(endpoint);
  std::int64_t ranks = 0;
  for (int rank = 0; rank < endpoint->size(); ++rank) ranks += rank + 1;
  for (int step = 0; step < steps; ++step) {
    std::exception_ptr error;
    try {
      const std::int64_t own = endpoint->rank() + 1, sum = co_await comm.all_reduce(own);
      EXPECT_EQ(sum, ranks);
    } catch (const Error&) {
      error = std::current_exception();
    }
    if (!error) continue;
    comm.abort(error);
    Task<> telling = endpoint->flush();
    co_await std::move(telling);
    std::rethrow_exception(error);
  }
}

TEST(LinkedNetwork, CarriesCollectives) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    LinkedRanks all(ranks);
    all.run([](std::shared_ptr<Endpoint> endpoint) { return sums(endpoint, 20); });
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(all.said(rank), "") << rank << " of " << ranks;
  }
}

TEST(LinkedNetwork, ARunIsTheSameWithTheSameSeedAndAnotherWithAnother) {
  const auto time = [](std::uint64_t seed) {
    LinkedRanks all(4, {}, seed);
    all.run([](std::shared_ptr<Endpoint> endpoint) { return sums(endpoint, 50); });
    return all.runtime->now();
  };
  EXPECT_EQ(time(7), time(7));
  EXPECT_NE(time(7), time(8));
}

TEST(LinkedNetwork, ChannelsOvertakeEachOtherAndNoneItself) {
  constexpr std::uint32_t channels = 4, messages = 50;
  std::vector<std::uint32_t> order;  // channels, as their messages arrive
  const auto sends = [](std::shared_ptr<Endpoint> endpoint, std::uint32_t channel) -> Task<> {
    for (std::uint32_t i = 0; i < messages; ++i) {
      const float number = static_cast<float>(i);
      co_await endpoint->send(1, numbers(1, channel), std::as_bytes(std::span(&number, 1)));
    }
  };
  const auto receives = [&order](std::shared_ptr<Endpoint> endpoint, std::uint32_t channel) -> Task<> {
    for (std::uint32_t i = 0; i < messages; ++i) {
      float number = -1;
      const Sink into(std::as_writable_bytes(std::span(&number, 1)));
      co_await endpoint->receive(0, numbers(1, channel), into);
      EXPECT_EQ(number, static_cast<float>(i));
      order.push_back(channel);
    }
  };
  LinkedRanks all(2);
  all.run([&](std::shared_ptr<Endpoint> endpoint) -> Task<> {
    std::vector<Task<>> tasks;
    for (std::uint32_t channel = 0; channel < channels; ++channel)
      tasks.push_back(endpoint->rank() == 0 ? sends(endpoint, channel) : receives(endpoint, channel));
    Task<> together = ripieno::all(endpoint->runtime(), std::move(tasks), [](std::exception_ptr) {});
    co_await std::move(together);
  });
  EXPECT_EQ(all.said(0) + all.said(1), "");
  bool overtook = false;
  for (std::size_t i = channels; i < order.size(); ++i) overtook = overtook || order[i] != order[i - channels];
  EXPECT_TRUE(overtook);
}

TEST(LinkedNetwork, ARankMayEndAtAnyMessage) {
  for (std::uint64_t message = 0; message < 60; ++message) {
    LinkedRanks all(4, {}, message);
    all.network.kill_at_message(2, message);
    all.run([](std::shared_ptr<Endpoint> endpoint) { return sums(endpoint, 40); });
    ASSERT_TRUE(all.network.dead(2)) << message;
    EXPECT_EQ(all.said(2), "rank 2 was killed") << message;
    for (const int rank : {0, 1, 3}) {
      ASSERT_TRUE(all.loss(rank)) << all.said(rank);
      EXPECT_EQ(all.loss(rank)->rank, 2) << all.said(rank);
      EXPECT_EQ(all.loss(rank)->how, Lost::ended);
    }
  }
}

TEST(LinkedNetwork, AStalledRankIsTheOneThatAllNameAndItsOwnWatchdogSleeps) {
  LinkedNetworkOptions options;
  options.link.timeout = seconds(1);
  for (int stalled = 0; stalled < 4; ++stalled) {
    LinkedRanks all(4, options, static_cast<std::uint64_t>(stalled));
    all.runtime->call_at(milliseconds(3), [&] { all.network.stall(stalled, seconds(60)); });
    all.run([](std::shared_ptr<Endpoint> endpoint) { return sums(endpoint, 400); });
    EXPECT_GT(all.runtime->now(), seconds(60));
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(all.loss(rank)) << rank << ": " << all.said(rank);
      EXPECT_EQ(all.loss(rank)->rank, stalled) << all.said(rank);
      EXPECT_EQ(all.loss(rank)->how, Lost::silent) << all.said(rank);
    }
    EXPECT_TRUE(all.loss(stalled)->told_by) << "it hears, late, that the others have given up";
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_NE(all.loss(rank)->told_by, std::optional(rank));
    }
  }
}

TEST(LinkedNetwork, AShortStallOnlyTakesTime) {
  LinkedNetworkOptions options;
  options.link.timeout = seconds(1);
  LinkedRanks all(3, options);
  all.runtime->call_at(milliseconds(3), [&] { all.network.stall(1, milliseconds(700)); });
  all.run([](std::shared_ptr<Endpoint> endpoint) { return sums(endpoint, 200); });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(all.said(rank), "");
  EXPECT_GT(all.runtime->now(), milliseconds(700));
}

TEST(LinkedNetwork, WhatIsSentIntoACutIsLost) {
  LinkedNetworkOptions options;
  options.link.timeout = seconds(1);
  LinkedRanks all(2, options);
  all.runtime->call_at(milliseconds(3), [&] { all.network.cut(0, 1); });
  all.run([](std::shared_ptr<Endpoint> endpoint) { return sums(endpoint, 200); });
  ASSERT_TRUE(all.loss(0));
  ASSERT_TRUE(all.loss(1));
  EXPECT_EQ(all.loss(1)->rank, 0) << all.said(1);  // which it no longer hears; while 0 hears that 1 waits for it
}

TEST(LinkedNetwork, ARankThatTakesNothingStopsItsSenders) {
  LinkedNetworkOptions options;
  options.link.unasked_bytes = 10'000;
  LinkedRanks all(2, options);
  std::size_t sent = 0;
  all.run([&sent](std::shared_ptr<Endpoint> endpoint) -> Task<> {
    std::vector<float> some(1000);
    if (endpoint->rank() == 0) {
      for (int i = 0; i < 20; ++i, ++sent) co_await endpoint->send(1, numbers(1000, 0), std::as_bytes(std::span(some)));
      co_return;
    }
    co_await endpoint->runtime().sleep(seconds(1));
    EXPECT_LT(sent, 5u);  // 4,000 bytes each
    for (int i = 0; i < 20; ++i) {
      const Sink into(std::as_writable_bytes(std::span(some)));
      co_await endpoint->receive(0, numbers(1000, 0), into);
    }
  });
  EXPECT_EQ(sent, 20u);
  EXPECT_EQ(all.said(0) + all.said(1), "");
}

}  // namespace
}  // namespace ripieno::transport
