// The numbers of `ripieno bench`: right after every operation, and each that is wrong is counted.
#include "apps/ripieno/bench_numbers.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "apps/ripieno/operations.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/virtual_cluster.h"

namespace ripieno {
namespace {

constexpr DType types[] = {DType::fp32,  DType::fp64,  DType::fp16, DType::bf16,
                           DType::int64, DType::int32, DType::uint8};
constexpr collective::Reduction reductions[] = {collective::Reduction::sum, collective::Reduction::mean,
                                                collective::Reduction::product, collective::Reduction::minimum,
                                                collective::Reduction::maximum};

/// All ranks' buffers.
using Buffers = std::vector<std::vector<std::byte>>;

Buffers filled(const program::BenchNumbers& numbers, collective::World world, std::size_t elements, DType type) {
  Buffers all(static_cast<std::size_t>(world.ranks), std::vector<std::byte>(elements * size_of(type)));
  for (int rank = 0; rank < world.ranks; ++rank) {
    numbers.fill(NumberSpan(all[static_cast<std::size_t>(rank)].data(), elements, type), rank);
  }
  return all;
}

void run(const collective::Route& route, collective::World world, DType type, DType wire,
         collective::Reduction reduction, Buffers& buffers) {
  collective::VirtualCluster cluster(world.ranks);
  cluster.run([&](collective::Communicator comm) {
    collective::ExecuteOptions options{wire};
    options.reduction = reduction;
    options.root = world.root;
    std::vector<std::byte>& own = buffers[static_cast<std::size_t>(comm.rank())];
    return collective::run_collective(route, comm, NumberSpan(own.data(), own.size() / size_of(type), type), options);
  });
}

std::uint64_t count_wrong(const program::BenchNumbers& numbers, DType type, Buffers& buffers) {
  std::uint64_t wrong = 0;
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    wrong += numbers.count_wrong(NumberSpan(buffers[rank].data(), buffers[rank].size() / size_of(type), type),
                                 static_cast<int>(rank));
  }
  return wrong;
}

void expect_right(const collective::Route& route, collective::World world, std::size_t elements, DType type, DType wire,
                  collective::Reduction reduction) {
  const program::BenchNumbers numbers(route.collective, reduction, world);
  Buffers buffers = filled(numbers, world, elements, type);
  run(route, world, type, wire, reduction, buffers);
  EXPECT_EQ(count_wrong(numbers, type, buffers), 0u)
      << transport::name(route.collective) << " " << route.name << " of " << name(type) << " on the wire " << name(wire)
      << ", " << collective::name(reduction) << ", P=" << world.ranks;
}

TEST(BenchNumbers, AreRightAfterEveryOperationOfEveryTypeAndReduction) {
  for (const transport::Collective operation : collective::collectives) {
    for (const DType type : types) {
      for (const collective::Reduction reduction : reductions) {
        if (!collective::reduces(operation) && reduction != collective::Reduction::sum) continue;
        for (const int ranks : {1, 2, 3, 7}) {
          expect_right(collective::default_route(operation),
                       {ranks, 1, collective::has_root(operation) ? ranks - 1 : 0}, 1501, type, type, reduction);
        }
      }
    }
  }
}

TEST(BenchNumbers, AreExactOnEveryWireAndOnManyRanks) {
  for (const transport::Collective operation : collective::collectives) {
    for (const DType wire : {DType::fp16, DType::bf16}) {
      for (const collective::Reduction reduction : reductions) {
        for (const DType type : {DType::fp32, DType::fp64}) {
          expect_right(collective::default_route(operation), 5, 701, type, wire, reduction);
        }
      }
    }
  }
  for (const collective::Reduction reduction : reductions) {
    for (const DType type : {DType::uint8, DType::bf16, DType::fp16, DType::fp32}) {
      expect_right(collective::find_route("reduce-broadcast"), 49, 520, type, type, reduction);
    }
    expect_right(collective::find_route("reduce-broadcast"), 512, 520, DType::uint8, DType::uint8, reduction);
    expect_right(collective::find_route("reduce-broadcast"), 512, 520, DType::bf16, DType::bf16, reduction);
  }
}

TEST(BenchNumbers, EveryElementThatIsPromisedIsLookedAt) {
  const collective::World world{3, 1, 1};
  const std::size_t elements = 301;  // which 3 does not divide
  const std::map<transport::Collective, std::size_t> promised{
      {transport::Collective::all_reduce, 903}, {transport::Collective::reduce_scatter, 301},
      {transport::Collective::all_gather, 903}, {transport::Collective::broadcast, 903},
      {transport::Collective::reduce, 301},     {transport::Collective::gather, 301},
      {transport::Collective::scatter, 301},    {transport::Collective::all_to_all, 903}};
  for (const transport::Collective operation : collective::collectives) {
    const program::BenchNumbers numbers(operation, collective::Reduction::sum, world);
    Buffers buffers = filled(numbers, world, elements, DType::uint8);
    run(collective::default_route(operation), world, DType::uint8, DType::uint8, collective::Reduction::sum, buffers);
    std::size_t seen = 0;
    for (auto& buffer : buffers) {
      for (std::byte& one : buffer) {
        one ^= std::byte{1};
        seen += count_wrong(numbers, DType::uint8, buffers);
        one ^= std::byte{1};
      }
    }
    EXPECT_EQ(seen, promised.at(operation)) << transport::name(operation);
  }
}

TEST(BenchNumbers, ASumWithOneRankTwiceAndAnotherNeverIsWrong) {
  for (const int ranks : {2, 8, 12, 40}) {
    const program::BenchNumbers numbers(transport::Collective::all_reduce, collective::Reduction::sum, ranks);
    const Buffers inputs = filled(numbers, ranks, 1024, DType::fp64);
    for (int lost = 1; lost < ranks; ++lost) {
      std::vector<double> sum(1024);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& own = inputs[static_cast<std::size_t>(rank == lost ? 0 : rank)];
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += reinterpret_cast<const double*>(own.data())[i];
      }
      EXPECT_GT(numbers.count_wrong(NumberSpan(sum), 1), 0u) << "rank " << lost << " of " << ranks;
    }
  }
}

TEST(BenchNumbers, WhatNobodyExchangedIsWrong) {
  for (const transport::Collective operation : collective::collectives) {
    for (const collective::Reduction reduction : reductions) {
      const program::BenchNumbers numbers(operation, reduction, collective::World(4));
      Buffers buffers = filled(numbers, collective::World(4), 4096, DType::fp32);
      EXPECT_GT(count_wrong(numbers, DType::fp32, buffers), 700u)
          << transport::name(operation) << ", " << collective::name(reduction);
    }
  }
}

TEST(BenchNumbers, NoNumberIsTheRightOne) {
  const program::BenchNumbers numbers(transport::Collective::all_reduce, collective::Reduction::mean,
                                      collective::World(1));
  std::vector<float> buffer(100);
  numbers.fill(NumberSpan(buffer), 0);
  buffer[7] = std::numeric_limits<float>::quiet_NaN();
  buffer[8] *= 1.001f;
  buffer[9] += 1e-3f;
  EXPECT_EQ(numbers.count_wrong(NumberSpan(buffer), 0), buffer[8] == 0 ? 2u : 3u);
}

}  // namespace
}  // namespace ripieno
