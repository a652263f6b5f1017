// Networks with two kinds of links: inside nodes and between them.
#include <gtest/gtest.h>

#include "ripieno/collective/execute.h"
#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/core/async.h"

namespace ripieno::collective {
namespace {

constexpr transport::LinkModel gigabit{Duration(50'000'000), Duration(8'000)};  // 50 us, 1 Gb/s
constexpr transport::LinkModel inside{Duration(1'000'000), Duration(40)};       // 1 us, 200 Gb/s

transport::Message letter_of(std::size_t bytes) { return {{}, "letter", DType::fp32, bytes / 4}; }

/// Rank 0 sends 1000 bytes each to rank 1, of its node, and to rank 2, of another, at once.
Task<> inside_and_outside(Communicator comm, std::vector<Duration>* arrived) {
  std::vector<std::byte> bytes(1000);
  if (comm.rank() == 0) {
    std::vector<Task<>> sends;
    for (const int peer : {1, 2}) sends.push_back(comm.endpoint().send(peer, letter_of(1000), bytes));
    Task<> together = all(comm.runtime(), std::move(sends), comm.ending());
    co_await std::move(together);
  } else if (comm.rank() < 3) {
    co_await comm.endpoint().receive(0, letter_of(1000), Bytes(bytes));
    (*arrived)[static_cast<std::size_t>(comm.rank())] = comm.runtime().now();
  }
}

TEST(Nodes, HaveLinksOfTheirOwnThatDoNotWaitForTheOthers) {
  for (const std::size_t turn_bytes : {0, 16384}) {
    VirtualCluster cluster(4, {.link = gigabit, .per_node = 2, .node_link = inside, .turn_bytes = turn_bytes});
    std::vector<Duration> arrived(3);
    cluster.run([&](Communicator comm) { return inside_and_outside(comm, &arrived); });
    EXPECT_EQ(arrived[1].count(), 1'000'000 + 1000 * 40);
    EXPECT_EQ(arrived[2].count(), 50'000'000 + 1000 * 8'000);
  }
}

/// Of 4 MB among 4 nodes of 8 ranks.
Duration all_reduce_takes(const char* route, const transport::LinkModel& in_nodes) {
  constexpr std::size_t elements = 1 << 20;
  VirtualCluster cluster(32, {.link = gigabit, .per_node = 8, .node_link = in_nodes, .window_bytes = 1 << 30});
  const NumberSpan numbers(nullptr, elements, DType::fp32);
  return cluster.run([&](Communicator comm) { return all_reduce(find_route(route), comm.on_nodes(8), numbers, {}); });
}

TEST(Nodes, HierarchicalIsFasterThanARingWithFastLinksInsideThemAndSlowerWithEqualOnes) {
  EXPECT_LT(all_reduce_takes("hierarchical", inside), all_reduce_takes("ring", inside));
  EXPECT_GT(all_reduce_takes("hierarchical", gigabit), all_reduce_takes("ring", gigabit));
  const World world(32, 8);
  EXPECT_EQ(all_reduce_takes("hierarchical", gigabit), find_route("hierarchical").time(world, 4 << 20, gigabit));
  EXPECT_EQ(all_reduce_takes("ring", gigabit), find_route("ring").time(world, 4 << 20, gigabit));
}

TEST(Nodes, NoRankANodeIsAnError) { EXPECT_THROW(VirtualCluster(4, {.link = gigabit, .per_node = 0}), Error); }

}  // namespace
}  // namespace ripieno::collective
