// Every collective along every route, in virtual time: what comes of it, and what is booked.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ripieno/collective/check.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/numeric/elementwise.h"
#include "tests/collective/worlds.h"

namespace ripieno::collective {
namespace {

using testing::worlds;

template <class T>
using Buffers = std::vector<std::vector<T>>;

/// Whole numbers, small enough that no sum or product of a few is rounded anywhere.
template <class T>
Buffers<T> inputs(int ranks, std::size_t elements) {
  Buffers<T> values(static_cast<std::size_t>(ranks), std::vector<T>(elements));
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    Random random(5, rank);
    for (T& x : values[rank]) x = static_cast<T>(1 + random.below(3));
  }
  return values;
}

template <class T>
T combined(Reduction how, T a, T b) {
  switch (how) {
    case Reduction::product:
      return static_cast<T>(a * b);
    case Reduction::minimum:
      return std::min(a, b);
    case Reduction::maximum:
      return std::max(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

/// What schedule.h's table promises. Where it promises nothing, what is there is taken.
template <class T>
Buffers<T> promised(transport::Collective collective, World world, const Buffers<T>& in, Reduction how,
                    const Buffers<T>& out) {
  const std::size_t n = in[0].size();
  std::vector<T> reduced = in[0];
  for (std::size_t rank = 1; rank < in.size(); ++rank) {
    for (std::size_t i = 0; i < n; ++i) reduced[i] = combined(how, reduced[i], in[rank][i]);
  }
  if (how == Reduction::mean) {
    for (T& x : reduced)
      x = std::is_floating_point_v<T> ? x * static_cast<T>(1.0 / world.ranks) : x / static_cast<T>(world.ranks);
  }
  Buffers<T> expected = out;
  for (int rank = 0; rank < world.ranks; ++rank) {
    std::vector<T>& own = expected[static_cast<std::size_t>(rank)];
    const auto take = [&own](const std::vector<T>& from, Range range) {
      for (std::size_t i = range.begin; i < range.end; ++i) own[i] = from[i];
    };
    const Range all{0, n}, mine = chunk(n, world.ranks, rank);
    const std::vector<T>& of_root = in[static_cast<std::size_t>(world.root)];
    const auto gather = [&] {
      for (int other = 0; other < world.ranks; ++other)
        take(in[static_cast<std::size_t>(other)], chunk(n, world.ranks, other));
    };
    switch (collective) {
      case transport::Collective::all_reduce:
        take(reduced, all);
        break;
      case transport::Collective::reduce_scatter:
        take(reduced, mine);
        break;
      case transport::Collective::all_gather:
        gather();
        break;
      case transport::Collective::broadcast:
        take(of_root, all);
        break;
      case transport::Collective::reduce:
        if (rank == world.root) take(reduced, all);
        break;
      case transport::Collective::gather:
        if (rank == world.root) gather();
        break;
      case transport::Collective::scatter:
        take(of_root, mine);
        break;
      case transport::Collective::all_to_all:
        take(in[static_cast<std::size_t>(rank)], all);
        for (int other = 0; other < world.ranks; ++other) {
          const Range to = block_of(n, world.ranks, other), from = block_of(n, world.ranks, rank);
          for (std::size_t i = 0; i < to.size(); ++i)
            own[to.begin + i] = in[static_cast<std::size_t>(other)][from.begin + i];
        }
        break;
    }
  }
  return expected;
}

template <class T>
void run_one(const Route& route, World world, std::size_t elements, Reduction how, std::size_t segment_bytes = 0) {
  const std::string where = text(transport::name(route.collective), " ", route.name, " of ", name(dtype_of<T>), ", ",
                                 name(how), ", P=", world.ranks, " M=", world.per_node, " root=", world.root,
                                 " n=", elements, " segments of ", segment_bytes);
  VirtualCluster cluster(world.ranks, {.framing_bytes = 64});
  const Buffers<T> in = inputs<T>(world.ranks, elements);
  Buffers<T> out = in;
  cluster.run([&](Communicator comm) {
    ExecuteOptions options;
    options.wire = dtype_of<T>;
    options.reduction = how;
    options.root = world.root;
    options.segment_bytes = segment_bytes;
    return run_collective(route, comm.on_nodes(world.per_node), NumberSpan(out[static_cast<std::size_t>(comm.rank())]),
                          options);
  });
  EXPECT_EQ(out, promised(route.collective, world, in, how, out)) << where;
  if (segment_bytes > 0) return;
  for (int rank = 0; rank < world.ranks; ++rank) {
    const ScheduleCost cost = schedule_cost(route, rank, world, elements);
    const observe::Traffic expected{cost.elements_sent * sizeof(T),
                                    cost.elements_received * sizeof(T),
                                    cost.messages_sent * 64,
                                    cost.messages_received * 64,
                                    cost.messages_sent,
                                    cost.messages_received};
    EXPECT_EQ(cluster.ledger(rank).total(), expected) << where;
  }
}

TEST(Collectives, DoWhatTheyPromiseAlongEveryRouteAndBookTheClosedForm) {
  for (const transport::Collective collective : collectives) {
    for (const Route& route : routes(collective)) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t(ranks), std::size_t{101}}) {
          for (const World world : worlds(route, ranks)) run_one<float>(route, world, elements, Reduction::sum);
        }
      }
    }
  }
}

template <class T>
void run_all_reductions() {
  for (const transport::Collective collective :
       {transport::Collective::all_reduce, transport::Collective::reduce_scatter, transport::Collective::reduce}) {
    for (const Route& route : routes(collective)) {
      for (const Reduction how :
           {Reduction::sum, Reduction::mean, Reduction::product, Reduction::minimum, Reduction::maximum}) {
        for (const int ranks : {2, 3, 4}) run_one<T>(route, ranks, 37, how);
      }
    }
  }
}

TEST(Collectives, CombineEveryTypeInEveryWay) {
  run_all_reductions<float>();
  run_all_reductions<double>();
  run_all_reductions<std::int64_t>();
  run_all_reductions<std::int32_t>();
  run_all_reductions<std::uint8_t>();
}

TEST(Collectives, MoveEveryType) {
  for (const transport::Collective collective :
       {transport::Collective::all_gather, transport::Collective::broadcast, transport::Collective::gather,
        transport::Collective::scatter, transport::Collective::all_to_all}) {
    for (const Route& route : routes(collective)) {
      run_one<double>(route, 5, 23, Reduction::sum);
      run_one<std::int64_t>(route, 5, 23, Reduction::sum);
      run_one<std::int32_t>(route, 5, 23, Reduction::sum);
      run_one<std::uint8_t>(route, 5, 23, Reduction::sum);
    }
  }
}

TEST(Collectives, SegmentsGiveTheSame) {
  for (const transport::Collective collective : collectives) {
    for (const Route& route : routes(collective)) run_one<float>(route, {5, 2}, 4099, Reduction::sum, 1024);
  }
}

/// fp16 and bf16 in memory: as bits, which are what is compared.
void of_narrow_numbers(DType type, Reduction how, const Route& route) {
  constexpr int ranks = 4;
  constexpr std::size_t n = 33;
  const Buffers<float> in = inputs<float>(ranks, n);
  Buffers<std::uint16_t> bits(ranks, std::vector<std::uint16_t>(n));
  VirtualCluster cluster(ranks);
  cluster.run([&](Communicator comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    std::vector<float> own = in[rank];
    const NumberSpan narrow(bits[rank].data(), n, type);
    numeric::convert(narrow, NumberSpan(own));
    ExecuteOptions options;
    options.wire = type;
    options.reduction = how;
    return run_collective(route, comm, narrow, options);
  });
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<float> out(n);
    numeric::convert(NumberSpan(out), NumberSpan(bits[rank].data(), n, type));
    for (std::size_t i = 0; i < n; ++i) {
      float expected = in[0][i];
      for (std::size_t other = 1; other < ranks; ++other) expected = combined(how, expected, in[other][i]);
      ASSERT_EQ(out[i], expected) << route.name << " " << name(type) << " " << name(how);
    }
  }
}

TEST(Collectives, CombineNarrowNumbersAsTheyAreInMemory) {
  for (const Route& route : routes()) {
    for (const DType type : {DType::fp16, DType::bf16}) {
      for (const Reduction how : {Reduction::sum, Reduction::product, Reduction::minimum, Reduction::maximum})
        of_narrow_numbers(type, how, route);
    }
  }
}

TEST(Collectives, AllRanksHoldTheSameBitsOfANarrowWire) {
  for (const transport::Collective collective : {transport::Collective::all_gather, transport::Collective::broadcast}) {
    for (const Route& route : routes(collective)) {
      VirtualCluster cluster(6);
      Buffers<float> values(6, std::vector<float>(101));
      for (std::size_t rank = 0; rank < 6; ++rank) {
        Random random(3, rank);
        for (float& x : values[rank]) x = static_cast<float>(random.uniform(-1, 1));
      }
      cluster.run([&](Communicator comm) {
        ExecuteOptions options;
        options.wire = DType::bf16;
        options.root = 4;
        return run_collective(route, comm, NumberSpan(values[static_cast<std::size_t>(comm.rank())]), options);
      });
      for (const auto& one : values) EXPECT_EQ(one, values[0]) << transport::name(collective) << " " << route.name;
    }
  }
}

TEST(Collectives, TakeNoLongerThanTheirFormulaAndOftenThat) {
  const transport::LinkModel link{Duration(50'000'000), Duration(800)};
  for (const transport::Collective collective : collectives) {
    if (collective == transport::Collective::all_reduce) continue;  // execute_test.cpp
    for (const Route& route : routes(collective)) {
      for (const int ranks : {1, 2, 3, 4, 8, 12, 16}) {
        VirtualCluster cluster(ranks, {.link = link, .window_bytes = 0});
        const std::size_t elements = static_cast<std::size_t>(ranks) * 1000;
        const Duration took = cluster.run([&](Communicator comm) {
          return run_collective(route, comm, NumberSpan(nullptr, elements, DType::fp32), {});
        });
        const Duration formula = route.time(ranks, elements * 4, link);
        const bool is_exact = route.name != "scatter-gather" && (route.name != "tree" || (ranks & (ranks - 1)) == 0);
        if (is_exact) {
          EXPECT_EQ(took.count(), formula.count())
              << transport::name(collective) << " " << route.name << " P=" << ranks;
        } else {
          EXPECT_LE(took.count(), formula.count())
              << transport::name(collective) << " " << route.name << " P=" << ranks;
          EXPECT_GE(took.count(), formula.count() / 2)
              << transport::name(collective) << " " << route.name << " P=" << ranks;
        }
      }
    }
  }
}

TEST(Collectives, RefuseWhatCannotBe) {
  VirtualCluster cluster(2);
  std::vector<float> numbers(4);
  const Route& tree = default_route(transport::Collective::broadcast);
  ExecuteOptions options;
  options.root = 2;
  EXPECT_THROW(run_collective(tree, cluster.comm(0), NumberSpan(numbers), options), Error);
  EXPECT_THROW(find_route("ring", transport::Collective::gather), Error);
}

TEST(Combine, MinimumAndMaximumKeepNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const numeric::Reduce how : {numeric::Reduce::minimum, numeric::Reduce::maximum}) {
    std::vector<double> a{nan, 1, nan}, b{1, nan, nan};
    numeric::combine(NumberSpan(a), NumberSpan(b), how);
    for (const double x : a) EXPECT_TRUE(std::isnan(x)) << numeric::name(how);
  }
}

TEST(Combine, WholeNumbersWrapAround) {
  std::vector<std::int32_t> a{std::numeric_limits<std::int32_t>::max()}, b{1};
  numeric::combine(NumberSpan(a), NumberSpan(b), numeric::Reduce::add);
  EXPECT_EQ(a[0], std::numeric_limits<std::int32_t>::min());
  std::vector<std::uint8_t> c{200}, d{100};
  numeric::combine(NumberSpan(c), NumberSpan(d), numeric::Reduce::add);
  EXPECT_EQ(c[0], 44);
}

TEST(Combine, DividesTowardsZero) {
  std::vector<std::int64_t> a{7, -7};
  numeric::divide(NumberSpan(a), 2);
  EXPECT_EQ(a, (std::vector<std::int64_t>{3, -3}));
  std::vector<float> b{3};
  numeric::divide(NumberSpan(b), 2);
  EXPECT_EQ(b[0], 1.5f);
}

}  // namespace
}  // namespace ripieno::collective
