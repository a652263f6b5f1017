#include "ripieno/collective/execute.h"

#include <gtest/gtest.h>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/check.h"
#include "ripieno/core/kernels.h"
#include "tests/support/cluster.h"

namespace ripieno {
namespace {

using testing::VirtualCluster;

/// Buffers whose sum is exact in every type: small multiples of 1/8.
std::vector<std::vector<float>> inputs(int ranks, std::size_t elements) {
  std::vector<std::vector<float>> values(ranks, std::vector<float>(elements));
  for (int rank = 0; rank < ranks; ++rank) {
    Random random(11, static_cast<std::uint64_t>(rank));
    for (float& x : values[rank]) x = static_cast<float>(random.below(16)) / 8;
  }
  return values;
}

TEST(AllReduce, SumsOverEveryRouteAndBooksTheClosedForm) {
  for (const Route& route : routes()) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t(ranks), std::size_t{1001}}) {
        VirtualCluster cluster(ranks, {.framing_bytes = 64});
        auto values = inputs(ranks, elements);
        std::vector<float> sum(elements);
        for (const auto& one : values) {
          for (std::size_t i = 0; i < elements; ++i) sum[i] += one[i];
        }
        cluster.run([&](Group group) {
          return all_reduce(route, group, FloatSpan(values[group.rank()]), {});
        });
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(values[rank], sum) << route.name << " P=" << ranks << " n=" << elements << " rank " << rank;
          const ScheduleCost cost = schedule_cost(route, rank, ranks, elements);
          const Traffic expected{cost.elements_sent * 4,   cost.elements_received * 4, cost.messages_sent * 64,
                                 cost.messages_received * 64, cost.messages_sent,       cost.messages_received};
          EXPECT_EQ(cluster.ledger(rank).total(Purpose::exchange), expected) << route.name << " P=" << ranks;
          EXPECT_EQ(cluster.ledger(rank).total(), expected);
        }
      }
    }
  }
}

TEST(AllReduce, TakesTheFormulasTimeExactly) {
  const LinkModel link{Duration(50'000'000), Duration(800)};
  for (const Route& route : routes()) {
    for (const int ranks : {1, 2, 4, 8, 16, 32, 64}) {
      VirtualCluster cluster(ranks, {.link = link, .window_bytes = 0});
      const std::size_t elements = 64 * 1000;
      const Duration took = cluster.run(
          [&](Group group) { return all_reduce(route, group, FloatSpan(nullptr, elements, DType::fp32), {}); });
      EXPECT_EQ(took.count(), route.time(ranks, elements * 4, link).count()) << route.name << " P=" << ranks;
    }
  }
}

TEST(AllReduce, SixtyFourWorkersWithDataAgree) {
  for (const Route& route : routes()) {
    VirtualCluster cluster(64);
    auto values = inputs(64, 10007);
    std::vector<float> sum(10007);
    for (const auto& one : values) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
    }
    cluster.run([&](Group group) { return all_reduce(route, group, FloatSpan(values[group.rank()]), {}); });
    for (const auto& one : values) ASSERT_EQ(one, sum) << route.name;
  }
}

TEST(AllReduce, SegmentsGiveTheSameSum) {
  for (const Route& route : routes()) {
    VirtualCluster cluster(5);
    auto values = inputs(5, 4099);
    std::vector<float> sum(4099);
    for (const auto& one : values) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
    }
    const ExecuteOptions options{.segment_bytes = 1024};
    cluster.run([&](Group group) {
      return all_reduce(route, group, FloatSpan(values[group.rank()]), options);
    });
    for (const auto& one : values) EXPECT_EQ(one, sum) << route.name;
  }
}

TEST(AllReduce, AllRanksHoldTheSameBitsWithEveryWire) {
  for (const Route& route : routes()) {
    for (const DType wire : {DType::fp32, DType::fp16, DType::bf16}) {
      for (const int ranks : {2, 3, 4, 5, 7, 8}) {
        VirtualCluster cluster(ranks);
        std::vector<std::vector<float>> values(ranks, std::vector<float>(997));
        std::vector<double> sum(997);
        for (int rank = 0; rank < ranks; ++rank) {
          Random random(3, static_cast<std::uint64_t>(rank));
          for (std::size_t i = 0; i < 997; ++i) sum[i] += values[rank][i] = static_cast<float>(random.uniform(-1, 1));
        }
        cluster.run([&](Group group) {
          return all_reduce(route, group, FloatSpan(values[group.rank()]), {.wire = wire});
        });
        const double unit = wire == DType::fp32 ? 1e-6 : wire == DType::fp16 ? 1.0 / 1024 : 1.0 / 128;
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(hash(FloatSpan(values[rank])), hash(FloatSpan(values[0])))
              << route.name << " " << name(wire) << " P=" << ranks << " rank " << rank;
          for (std::size_t i = 0; i < 997; ++i) ASSERT_NEAR(values[rank][i], sum[i], unit * ranks * ranks);
        }
      }
    }
  }
}

TEST(Averager, WeighsAndKnowsItsBytes) {
  for (const Route& route : routes()) {
    for (const char* wire : {"auto", "fp16", "bf16"}) {
      for (int ranks = 1; ranks <= 6; ++ranks) {
        VirtualCluster cluster(ranks);
        auto averager = make_averager({std::string(route.name), wire, 512});
        std::vector<std::vector<float>> values(ranks, std::vector<float>(1003, 2.0f));
        cluster.run([&](Group group) {
          return averager->average(group, FloatSpan(values[group.rank()]), 1.0 / ranks, 0);
        });
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_NEAR(values[rank][1002], 2.0f, 0.02);
          EXPECT_EQ(cluster.ledger(rank).total().payload_sent, averager->bytes_sent(rank, ranks, 1003, DType::fp32));
        }
      }
    }
  }
}

TEST(Broadcast, GivesEveryoneTheFirstMembersNumbers) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    VirtualCluster cluster(ranks);
    auto values = inputs(ranks, 100);
    const auto first = values[0];
    cluster.run([&](Group group) {
      const ExecuteOptions options{.purpose = Purpose::setup};
      return broadcast(group, FloatSpan(values[group.rank()]), options);
    });
    for (const auto& one : values) EXPECT_EQ(one, first);
  }
}

Task<> subset(Group everyone, std::vector<float>* values) {
  if (everyone.rank() % 2 == 1) co_return;
  const Group group(everyone.shared_endpoint(), {4, 0, 2});
  const ExecuteOptions options;
  co_await all_reduce(find_route("ring"), group, FloatSpan(*values), options);
}

TEST(Group, CollectivesRunAmongSomeOfTheRanks) {
  VirtualCluster cluster(5);
  std::vector<std::vector<float>> values{{1}, {2}, {4}, {8}, {16}};
  cluster.run([&](Group group) { return subset(group, &values[group.rank()]); });
  EXPECT_EQ(values, (std::vector<std::vector<float>>{{21}, {2}, {21}, {8}, {21}}));
}

}  // namespace
}  // namespace ripieno
