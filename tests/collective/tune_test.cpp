#include "ripieno/collective/tune.h"

#include <gtest/gtest.h>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/virtual_cluster.h"

namespace ripieno::collective {
namespace {

transport::LinkModel link_of(double latency_us, double mbit_s) {
  return {from_seconds(latency_us * 1e-6), from_seconds(8e-6 / mbit_s)};
}

TEST(Tune, AMessageIsWhatALinkCarriesInTwoMilliseconds) {
  EXPECT_EQ(tune(2, 40'000'000, link_of(50, 1000)).segment_bytes, 2 * 250'000u);
  EXPECT_EQ(tune(2, 40'000'000, link_of(50, 10)).segment_bytes, 2 * (64u << 10));
  EXPECT_EQ(tune(7, 40'000'000, link_of(5, 100'000)).segment_bytes, 7u << 20);
}

TEST(Tune, NoOtherBucketsCostLess) {
  // What buckets of b bytes cost beside the bytes themselves: a start each, and the last one's bytes.
  for (const int ranks : {2, 4, 7}) {
    const transport::LinkModel link = link_of(100, 1000);
    const double bytes = 37e6, start = 2 * (ranks - 1) * seconds(link.latency);
    const double per_byte = 2.0 * (ranks - 1) / ranks * seconds(link.per_byte);
    const auto cost = [&](double bucket) { return bytes / bucket * start + bucket * per_byte; };
    const auto chosen = static_cast<double>(tune(ranks, 37'000'000, link).bucket_bytes);
    for (const double other : {chosen * 0.9, chosen * 1.1}) EXPECT_LT(cost(chosen), cost(other)) << ranks;
  }
}

TEST(Tune, BucketsAreNoLargerThanWhatThereIs) {
  EXPECT_EQ(tune(2, 100, link_of(50, 1000)).bucket_bytes, 100u);
  EXPECT_EQ(tune(2, 10'000, link_of(5000, 1000)).bucket_bytes, 10'000u);
  EXPECT_EQ(tune(1, 10'000, link_of(50, 1000)).bucket_bytes, 10'000u);
  EXPECT_EQ(tune(2, 1'000'000, link_of(0, 1000)).bucket_bytes, 4096u);
}

/// Whether a route that sends no more than the ring is a tenth faster on busy links, or any other on idle ones.
bool wins(const Route& route, int ranks, std::size_t bytes, transport::LinkModel link) {
  const auto time = [&](const Route& r, transport::LinkModel l) { return seconds(r.time(ranks, bytes, l)); };
  const Route& ring = find_route("ring");
  const transport::LinkModel no_latency{Duration{0}, link.per_byte};
  const transport::LinkModel judged = time(route, no_latency) <= time(ring, no_latency) ? busy(link) : link;
  return time(route, judged) < 0.899 * time(ring, judged);
}

TEST(Tune, WhatIsSmallGoesTheFasterWayAndWhatIsLargeTheRing) {
  for (const int ranks : {2, 3, 4, 7, 16}) {
    const transport::LinkModel link = link_of(50, 1000);
    const Tuning tuning = tune(ranks, 64 << 20, link);
    ASSERT_GT(tuning.small_bytes, 0u) << ranks;
    ASSERT_LT(tuning.small_bytes, 64u << 20) << ranks;
    EXPECT_TRUE(wins(find_route(tuning.small_route), ranks, tuning.small_bytes, link)) << ranks;
    for (const Route& route : routes()) {
      if (route.name == "hierarchical") continue;  // it needs nodes
      EXPECT_FALSE(wins(route, ranks, 2 * tuning.small_bytes, link)) << ranks << route.name;
    }
  }
  const Tuning alone = tune(1, 1000, link_of(50, 1000));
  EXPECT_EQ(alone.small_bytes, 0u);
}

TEST(Tune, TwoRanksSendEachOtherAllOfWhatIsSmall) {
  // Half the rounds of the ring for the same bytes: while 10 % of the time is less than the round that is spared.
  const Tuning tuning = tune(2, 64 << 20, link_of(50, 1000));
  EXPECT_EQ(tuning.small_route, "direct");
  EXPECT_EQ(tuning.small_bytes, 2u << 20);
}

TEST(Tune, OnBusyLinksTheChoiceIsFasterInVirtualTimeThanTheRing) {
  // One small slot of the chosen size, and one of eight times that: the first takes what the small route takes.
  const int ranks = 4;
  const transport::LinkModel link = busy(link_of(50, 1000));
  const Tuning tuning = tune(ranks, 64 << 20, link_of(50, 1000));
  const std::size_t few = tuning.small_bytes / sizeof(float), many = 8 * few;
  AveragerOptions plain, chosen;
  chosen.small_route = tuning.small_route;
  chosen.small_bytes = tuning.small_bytes;
  const auto took = [&](AveragerOptions options, std::size_t slot) {
    VirtualCluster cluster(ranks, {.link = link, .window_bytes = 1 << 30});
    std::vector<std::unique_ptr<Averager>> averagers;
    for (int rank = 0; rank < ranks; ++rank) averagers.push_back(make_averager(options, {{few}, {many}}, DType::fp32));
    return cluster.run([&](Communicator comm) {
      return averagers[comm.rank()]->average(comm, slot, NumberSpan(nullptr, slot == 0 ? few : many, DType::fp32), 1);
    });
  };
  EXPECT_LT(seconds(took(chosen, 0)), 0.95 * seconds(took(plain, 0)));
  EXPECT_EQ(took(chosen, 1), took(plain, 1));
}

}  // namespace
}  // namespace ripieno::collective
