#include "ripieno/collective/execute.h"

#include <gtest/gtest.h>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/check.h"
#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/numeric/elementwise.h"
#include "tests/collective/worlds.h"

namespace ripieno::collective {
namespace {

using testing::worlds;

/// Buffers whose sum is exact in every type: small multiples of 1/8.
std::vector<std::vector<float>> inputs(int ranks, std::size_t elements) {
  std::vector<std::vector<float>> values(ranks, std::vector<float>(elements));
  for (int rank = 0; rank < ranks; ++rank) {
    Random random(11, static_cast<std::uint64_t>(rank));
    for (float& x : values[rank]) x = static_cast<float>(random.below(16)) / 8;
  }
  return values;
}

void sums_and_books(const Route& route, World world, std::size_t elements) {
  const std::string where = text(route.name, " P=", world.ranks, " M=", world.per_node, " n=", elements);
  VirtualCluster cluster(world.ranks, {.framing_bytes = 64});
  auto values = inputs(world.ranks, elements);
  std::vector<float> sum(elements);
  for (const auto& one : values) {
    for (std::size_t i = 0; i < elements; ++i) sum[i] += one[i];
  }
  cluster.run([&](Communicator comm) {
    return all_reduce(route, comm.on_nodes(world.per_node), NumberSpan(values[comm.rank()]), {});
  });
  for (int rank = 0; rank < world.ranks; ++rank) {
    EXPECT_EQ(values[rank], sum) << where << " rank " << rank;
    const ScheduleCost cost = schedule_cost(route, rank, world, elements);
    const observe::Traffic expected{cost.elements_sent * 4,      cost.elements_received * 4, cost.messages_sent * 64,
                                    cost.messages_received * 64, cost.messages_sent,         cost.messages_received};
    EXPECT_EQ(cluster.ledger(rank).total(observe::Purpose::exchange), expected) << where;
    EXPECT_EQ(cluster.ledger(rank).total(), expected);
  }
}

TEST(AllReduce, SumsOverEveryRouteAndBooksTheClosedForm) {
  for (const Route& route : routes()) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t(ranks), std::size_t{1001}}) {
        for (const World world : worlds(route, ranks)) sums_and_books(route, world, elements);
      }
    }
  }
}

/// The virtual time of one all-reduce, with nothing in flight unasked.
Duration time_of(const Route& route, World world, std::size_t elements, transport::LinkModel link) {
  VirtualCluster cluster(world.ranks, {.link = link, .window_bytes = 0});
  return cluster.run([&](Communicator comm) {
    return all_reduce(route, comm.on_nodes(world.per_node), NumberSpan(nullptr, elements, DType::fp32), {});
  });
}

constexpr transport::LinkModel fast_link{Duration(50'000'000), Duration(800)};

TEST(AllReduce, TakesTheFormulasTimeExactly) {
  const std::size_t elements = 64 * 1000;
  for (const Route& route : routes()) {
    for (const int ranks : {1, 2, 4, 8, 16, 32, 64}) {
      for (const World world : worlds(route, ranks)) {
        if (world.per_node == 3) continue;  // not stated to be exact
        const Duration formula = route.time(world, elements * 4, fast_link);
        EXPECT_EQ(time_of(route, world, elements, fast_link).count(), formula.count())
            << route.name << " P=" << ranks << " M=" << world.per_node;
      }
    }
  }
}

TEST(AllReduce, TakesTheFormulasTimeForEveryWorldSizeWhereStated) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (const char* name : {"direct", "leader-ring"}) {
      const Route& route = find_route(name);
      EXPECT_EQ(time_of(route, ranks, 1000, fast_link).count(), route.time(ranks, 4000, fast_link).count())
          << name << " P=" << ranks;
    }
    const Route& trees = find_route("double-binary-tree");
    for (const std::size_t elements : {std::size_t{2}, std::size_t{64'000}}) {
      const Duration took = time_of(trees, ranks, elements, fast_link);
      const Duration formula = trees.time(ranks, elements * 4, fast_link);
      EXPECT_LE(took.count(), formula.count()) << "P=" << ranks;
      EXPECT_GE(took.count(), formula.count() * 4 / 5) << "P=" << ranks;
    }
  }
}

TEST(AllReduce, SegmentsLetTheTreesAndTheLeaderRingSendAtTheFullRate) {
  const std::size_t elements = 1 << 20;
  const transport::LinkModel link{Duration(1'000'000), Duration(800)};
  const auto took = [&](const char* route, std::size_t segment_bytes) {
    VirtualCluster cluster(16, {.link = link, .window_bytes = 0});
    ExecuteOptions options;
    options.segment_bytes = segment_bytes;
    return cluster.run([&](Communicator comm) {
      return all_reduce(find_route(route), comm, NumberSpan(nullptr, elements, DType::fp32), options);
    });
  };
  for (const char* route : {"double-binary-tree", "leader-ring"}) {
    EXPECT_LT(took(route, elements * 4 / 64) * 2, took(route, 0)) << route;
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
    cluster.run([&](Communicator comm) { return all_reduce(route, comm, NumberSpan(values[comm.rank()]), {}); });
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
    cluster.run([&](Communicator comm) { return all_reduce(route, comm, NumberSpan(values[comm.rank()]), options); });
    for (const auto& one : values) EXPECT_EQ(one, sum) << route.name;
  }
}

TEST(AllReduce, EveryPartIsWeightedAndToldOfOnceWhenItHoldsTheSum) {
  for (const Route& route : routes()) {
    for (const std::size_t segment_bytes : {0, 1024}) {
      VirtualCluster cluster(5);
      auto values = inputs(5, 4099);
      std::vector<float> sum(4099);
      for (const auto& one : values) {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i] / 2;
      }
      std::vector<std::vector<int>> told(5, std::vector<int>(4099));
      cluster.run([&](Communicator comm) {
        ExecuteOptions options{.segment_bytes = segment_bytes, .weight = 0.5};
        options.done = [&, rank = comm.rank()](Range part) {
          for (std::size_t i = part.begin; i < part.end; ++i) told[rank][i] += values[rank][i] == sum[i] ? 1 : 1000;
        };
        return all_reduce(route, comm, NumberSpan(values[comm.rank()]), options);
      });
      for (const auto& one : values) EXPECT_EQ(one, sum) << route.name;
      for (const auto& one : told) EXPECT_EQ(one, std::vector<int>(4099, 1)) << route.name;
    }
  }
}

void same_bits(const Route& route, World world, DType wire) {
  VirtualCluster cluster(world.ranks);
  std::vector<std::vector<float>> values(world.ranks, std::vector<float>(997));
  std::vector<double> sum(997);
  for (int rank = 0; rank < world.ranks; ++rank) {
    Random random(3, static_cast<std::uint64_t>(rank));
    for (std::size_t i = 0; i < 997; ++i) sum[i] += values[rank][i] = static_cast<float>(random.uniform(-1, 1));
  }
  cluster.run([&](Communicator comm) {
    return all_reduce(route, comm.on_nodes(world.per_node), NumberSpan(values[comm.rank()]), {.wire = wire});
  });
  const double unit = wire == DType::fp32 ? 1e-6 : wire == DType::fp16 ? 1.0 / 1024 : 1.0 / 128;
  for (int rank = 0; rank < world.ranks; ++rank) {
    EXPECT_EQ(numeric::hash(NumberSpan(values[rank])), numeric::hash(NumberSpan(values[0])))
        << route.name << " " << name(wire) << " P=" << world.ranks << " M=" << world.per_node << " rank " << rank;
    for (std::size_t i = 0; i < 997; ++i) ASSERT_NEAR(values[rank][i], sum[i], unit * world.ranks * world.ranks);
  }
}

TEST(AllReduce, AllRanksHoldTheSameBitsWithEveryWire) {
  for (const Route& route : routes()) {
    for (const DType wire : {DType::fp32, DType::fp16, DType::bf16}) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        for (const World world : worlds(route, ranks)) same_bits(route, world, wire);
      }
    }
  }
}

TEST(AllReduce, DirectAddsInTheOrderOfRanksWhateverItIsCutInto) {
  for (const std::size_t segment_bytes : {std::size_t{0}, std::size_t{256}}) {
    for (const DType wire : {DType::fp32, DType::bf16}) {
      VirtualCluster cluster(5);
      std::vector<std::vector<float>> values(5, std::vector<float>(999));
      for (int rank = 0; rank < 5; ++rank) {
        Random random(7, static_cast<std::uint64_t>(rank));
        for (float& x : values[rank]) x = static_cast<float>(random.uniform(-1, 1));
      }
      auto rounded = values;
      for (auto& one : rounded) numeric::round_through(NumberSpan(one), wire);
      auto expected = rounded[0];
      for (int rank = 1; rank < 5; ++rank) {
        for (std::size_t i = 0; i < 999; ++i) expected[i] += rounded[rank][i];
      }
      ExecuteOptions options{wire};
      options.segment_bytes = segment_bytes;
      cluster.run([&](Communicator comm) {
        return all_reduce(find_route("direct"), comm, NumberSpan(values[comm.rank()]), options);
      });
      for (const auto& one : values) EXPECT_EQ(one, expected) << name(wire);
    }
  }
}

TEST(Averager, WeighsAndKnowsItsBytesOnEveryRoute) {
  for (const Route& route : routes()) {
    for (const char* wire : {"auto", "fp16", "bf16"}) {
      for (int ranks = 1; ranks <= 6; ++ranks) {
        for (const World world : worlds(route, ranks)) {
          VirtualCluster cluster(ranks);
          AveragerOptions options;
          options.route = route.name;
          options.codec.name = wire;
          options.segment_bytes = 512;
          std::vector<std::unique_ptr<Averager>> averager;
          for (int rank = 0; rank < ranks; ++rank) {
            averager.push_back(make_averager(options, {Slot{1003}}, DType::fp32));
          }
          std::vector<std::vector<float>> values(ranks, std::vector<float>(1003, 2.0f));
          cluster.run([&](Communicator comm) {
            return averager[comm.rank()]->average(comm.on_nodes(world.per_node), 0, NumberSpan(values[comm.rank()]),
                                                  1.0 / ranks);
          });
          for (int rank = 0; rank < ranks; ++rank) {
            EXPECT_NEAR(values[rank][1002], 2.0f, 0.02);
            EXPECT_EQ(cluster.ledger(rank).total().payload_sent, averager[rank]->bytes_sent(rank, world, 0))
                << route.name << " " << wire << " P=" << ranks << " M=" << world.per_node;
          }
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
    cluster.run([&](Communicator comm) {
      const ExecuteOptions options{.purpose = observe::Purpose::setup};
      return broadcast(comm, NumberSpan(values[comm.rank()]), options);
    });
    for (const auto& one : values) EXPECT_EQ(one, first);
  }
}

Task<> subset(const Route* route, Communicator everyone, std::vector<float>* values) {
  if (everyone.rank() % 2 == 1) co_return;
  const Communicator comm(everyone.shared_endpoint(), {4, 0, 2}, 2);
  const ExecuteOptions options;
  co_await all_reduce(*route, comm, NumberSpan(*values), options);
}

TEST(Communicator, CollectivesRunAmongSomeOfTheRanks) {
  for (const Route& route : routes()) {
    VirtualCluster cluster(5);
    std::vector<std::vector<float>> values{{1}, {2}, {4}, {8}, {16}};
    cluster.run([&](Communicator comm) { return subset(&route, comm, &values[comm.rank()]); });
    EXPECT_EQ(values, (std::vector<std::vector<float>>{{21}, {2}, {21}, {8}, {21}})) << route.name;
  }
}

TEST(Communicator, KnowsItsWorld) {
  VirtualCluster cluster(5);
  EXPECT_EQ(cluster.comm(1).world(), World(5));
  EXPECT_EQ(cluster.comm(1).on_nodes(2).world(), World(5, 2));
  EXPECT_EQ(World(5, 2).nodes(), 3);
  EXPECT_THROW(cluster.comm(0).on_nodes(0), Error);
}

TEST(Communicator, ARotatedGroupHasAnotherLeader) {
  VirtualCluster cluster(4);
  std::vector<std::vector<float>> values{{1}, {2}, {4}, {8}};
  cluster.run([&](Communicator comm) {
    return all_reduce(find_route("leader-ring"), Communicator(comm.shared_endpoint(), {2, 3, 0, 1}),
                      NumberSpan(values[comm.rank()]), {});
  });
  EXPECT_EQ(values, (std::vector<std::vector<float>>{{15}, {15}, {15}, {15}}));
  EXPECT_EQ(cluster.ledger(2).total().messages_sent, 1u);  // the leader
  EXPECT_EQ(cluster.ledger(1).total().messages_sent, 1u);  // the last
  EXPECT_EQ(cluster.ledger(0).total().messages_sent, 2u);
}

}  // namespace
}  // namespace ripieno::collective
