#include "ripieno/collective/measure_links.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ripieno/collective/virtual_cluster.h"

namespace ripieno::collective {
namespace {

transport::LinkModel link_with(double latency_us, double mbit_s) {
  return {from_seconds(latency_us * 1e-6), from_seconds(8e-6 / mbit_s)};
}

/// What each rank finds, and in what time.
struct Found {
  std::vector<MeasuredLinks> links;
  double taken_s = 0;
};

Task<> measure(Communicator comm, MeasuredLinks* own) { *own = co_await measure_links(comm); }

Found measured(int ranks, transport::SimulatedOptions network) {
  VirtualCluster cluster(ranks, network);
  Found found;
  found.links.resize(static_cast<std::size_t>(ranks));
  found.taken_s = seconds(cluster.run([&](Communicator comm) { return measure(comm, &found.links[comm.rank()]); }));
  return found;
}

/// An endpoint that holds back each message that it sends, one after the other, for a time that `held` gives.
class Holding final : public transport::Endpoint {
 public:
  using Held = std::function<Duration(Duration now, std::size_t bytes)>;
  Holding(transport::Endpoint& inner, Held held) : inner_(inner), held_(std::move(held)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Runtime& runtime() override { return inner_.runtime(); }
  Task<> send(int peer, transport::Message message, ConstBytes payload) override {
    free_ = std::max(free_, runtime().now());
    free_ += held_(free_, payload.size());
    const Duration until = free_ - runtime().now();
    co_await runtime().sleep(until);
    co_await inner_.send(peer, message, payload);
  }
  using transport::Endpoint::receive;
  Task<> receive(int peer, transport::Message message, transport::Sink into) override {
    return inner_.receive(peer, message, into);
  }
  void abort(transport::Scope scope, const std::vector<int>& members, std::exception_ptr error) override {
    inner_.abort(scope, members, error);
  }
  Task<std::vector<int>> survivors() override { return inner_.survivors(); }
  std::string way(int peer) const override { return inner_.way(peer); }
  std::size_t framing_bytes(int peer) const override { return inner_.framing_bytes(peer); }

 private:
  transport::Endpoint& inner_;
  Held held_;
  Duration free_{0};
};

/// What is found over links of 100 Gb/s that are held back so.
MeasuredLinks measured_with(double latency_us, const Holding::Held& held) {
  constexpr int ranks = 2;
  VirtualCluster cluster(ranks, {.link = link_with(latency_us, 100'000)});
  std::vector<MeasuredLinks> found(ranks);
  std::vector<std::shared_ptr<Holding>> endpoints;
  for (int rank = 0; rank < ranks; ++rank) endpoints.push_back(std::make_shared<Holding>(cluster.endpoint(rank), held));
  cluster.run([&](Communicator comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    return measure(Communicator(endpoints[rank]), &found[rank]);
  });
  EXPECT_EQ(found[0].doubt, found[1].doubt);
  return found[0];
}

Duration at_rate(double mbit_s, std::size_t bytes) { return from_seconds(8e-6 / mbit_s * static_cast<double>(bytes)); }

TEST(MeasureLinks, FindsRateAndLatencyWhateverTheOtherIs) {
  for (const int ranks : {2, 3, 8}) {
    for (const double latency_us : {0.0, 5.0, 500.0, 20'000.0, 100'000.0}) {
      for (const double mbit_s : {0.5, 10.0, 100.0, 1000.0, 40'000.0}) {
        const transport::LinkModel link = link_with(latency_us, mbit_s);
        const std::string where = text(ranks, " ranks, ", latency_us, " us, ", mbit_s, " Mb/s");
        const Found found = measured(ranks, {.link = link});
        const MeasuredLinks& first = found.links[0];
        EXPECT_EQ(first.doubt, "") << where;
        // Beside alpha, a message of 4 bytes takes 4 beta.
        EXPECT_NEAR(seconds(first.link.latency), seconds(link.latency + 4 * link.per_byte), 1e-9) << where;
        EXPECT_NEAR(seconds(first.link.per_byte) / seconds(link.per_byte), 1, 0.02) << where;
        for (const MeasuredLinks& other : found.links) {
          EXPECT_EQ(other.link.latency, first.link.latency) << where;
          EXPECT_EQ(other.link.per_byte, first.link.per_byte) << where;
        }
        EXPECT_LT(found.taken_s, latency_us < 1000 ? 1.5 : 10) << where;
      }
    }
  }
}

TEST(MeasureLinks, WhatATokenBucketLetsThroughAtOnceIsNotTheRate) {
  for (const double latency_us : {50.0, 20'000.0}) {
    for (const std::size_t burst : {std::size_t{66'000}, std::size_t{1'000'000}, std::size_t{8'000'000}}) {
      const transport::LinkModel link = link_with(latency_us, 100);
      const MeasuredLinks found = measured(2, {.link = link, .burst_bytes = burst}).links[0];
      EXPECT_EQ(found.doubt, "") << burst;
      EXPECT_NEAR(seconds(found.link.per_byte) / seconds(link.per_byte), 1, 0.03) << burst << " " << latency_us;
    }
  }
}

TEST(MeasureLinks, AConnectionThatSpeedsUpIsMeasuredWhenItHas) {
  // As TCP's window grows: by what has come back, from 14 KiB a round trip.
  constexpr double latency_us = 20'000;
  std::size_t sent = 0;
  const MeasuredLinks found = measured_with(latency_us, [&](Duration, std::size_t bytes) {
    sent += bytes;
    return at_rate(std::min(100.0, 8 * (14'336 + static_cast<double>(sent) / 2) / (2 * latency_us)), bytes);
  });
  EXPECT_EQ(found.doubt, "");
  EXPECT_NEAR(8e-6 / seconds(found.link.per_byte), 100, 1);
}

TEST(MeasureLinks, SaysThatARateVariesAndTakesTheSlowest) {
  // Other traffic takes nine tenths of a link half of the time.
  for (int period_ms = 20; period_ms < 150; period_ms += period_ms / 5 + 1) {
    const MeasuredLinks found = measured_with(50, [&](Duration now, std::size_t bytes) {
      const bool is_busy = static_cast<long>(seconds(now) * 1e3) / period_ms % 2 == 1;
      return at_rate(is_busy ? 10 : 100, bytes);
    });
    const double rate = 8e-6 / seconds(found.link.per_byte);
    EXPECT_NE(found.doubt.find("not sure of it; takes the slowest"), std::string::npos) << period_ms << found.doubt;
    EXPECT_LT(rate, 55) << period_ms;
  }
}

TEST(MeasureLinks, SaysThatALatencyVariesAndTakesTheMedian) {
  Random random(7, 7);
  const MeasuredLinks found =
      measured_with(50, [&](Duration, std::size_t) { return from_seconds(random.uniform(0, 1) < 0.5 ? 1e-3 : 3e-2); });
  EXPECT_NE(found.doubt.find("not sure of the latency; takes "), std::string::npos) << found.doubt;
  EXPECT_GE(seconds(found.link.latency), 1e-3);
  EXPECT_LE(seconds(found.link.latency), 0.0302);
}

TEST(MeasureLinks, DoesNotBelieveARateThatNoLinkHas) {
  const Found found = measured(2, {.link = {from_seconds(1e-3), Duration(0)}});
  EXPECT_NE(found.links[0].doubt.find("not believed; takes 1000 Mb/s"), std::string::npos) << found.links[0].doubt;
  EXPECT_EQ(found.links[0].link.per_byte, transport::LinkModel{}.per_byte);
}

TEST(MeasureLinks, GivesUpAfterSomeTimeAndSaysSo) {
  const Found found = measured(2, {.link = link_with(50, 0.01)});
  EXPECT_NE(found.links[0].doubt.find("no time for more than "), std::string::npos) << found.links[0].doubt;
  EXPECT_NEAR(8e-6 / seconds(found.links[0].link.per_byte), 0.01, 0.001);
  EXPECT_LT(found.taken_s, 12);
}

TEST(MeasureLinks, AloneThereIsNothingToMeasure) {
  const MeasuredLinks found = measured(1, {.link = link_with(7, 70)}).links[0];
  EXPECT_EQ(found.link.latency, transport::LinkModel{}.latency);
  EXPECT_EQ(found.link.per_byte, transport::LinkModel{}.per_byte);
}

}  // namespace
}  // namespace ripieno::collective
