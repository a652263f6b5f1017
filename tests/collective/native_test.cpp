// The route native: MPI's own collectives, by an MPI of the tests' own. What ranks hold afterwards is what Ripieno's
// routes would leave.
#include "ripieno/collective/native.h"

#include <gtest/gtest.h>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/execute.h"
#include "ripieno/core/async.h"
#include "ripieno/transport/counted.h"
#include "tests/transport/ranks.h"

namespace ripieno::collective {
namespace {

using namespace ripieno::testing;
using transport::Collective;
using transport::Endpoint;

Communicator all_of(Endpoint* e) {
  return Communicator(
      std::make_shared<transport::CountedEndpoint>(std::shared_ptr<Endpoint>(std::shared_ptr<void>(), e)));
}

observe::Traffic exchanged(const Communicator& comm) {
  return dynamic_cast<transport::CountedEndpoint&>(comm.endpoint()).ledger().total(observe::Purpose::exchange);
}

/// Runs it along native and along the default route, from the same small whole numbers.
template <class T>
Task<> expect_same(Communicator comm, Collective collective, ExecuteOptions options, std::size_t count) {
  std::vector<T> own(count), reference(count);
  for (std::size_t i = 0; i < count; ++i)
    own[i] = reference[i] = static_cast<T>((7 * static_cast<std::size_t>(comm.rank()) + i) % 5 + 1);
  co_await run_collective(native::route(collective), comm, NumberSpan(own), options);
  co_await run_collective(default_route(collective), comm, NumberSpan(reference), options);
  Range promised{0, count};
  if (collective == Collective::reduce_scatter || collective == Collective::scatter)
    promised = chunk(count, comm.size(), comm.rank());
  if ((collective == Collective::reduce || collective == Collective::gather) && comm.rank() != options.root)
    promised = {};
  for (std::size_t i = promised.begin; i < promised.end; ++i) {
    EXPECT_EQ(own[i], reference[i]) << transport::name(collective) << ", " << name(options.reduction) << ", root "
                                    << options.root << ", number " << i << " of " << count << " on rank "
                                    << comm.rank();
  }
}

template <class T>
Task<> expect_all_same(Endpoint* e) {
  const Communicator comm = all_of(e);
  ExecuteOptions options;
  options.wire = NumberSpan(std::span<T>()).type;
  for (const Collective collective : collectives) {
    for (options.root = 0; options.root < (has_root(collective) ? comm.size() : 1); ++options.root) {
      for (const Reduction reduction :
           {Reduction::sum, Reduction::mean, Reduction::product, Reduction::minimum, Reduction::maximum}) {
        options.reduction = reduction;
        co_await expect_same<T>(comm, collective, options, 12);
        if (collective != Collective::all_to_all) co_await expect_same<T>(comm, collective, options, 1000);
        if (!reduces(collective)) break;
      }
    }
  }
}

TEST(NativeRoute, LeavesWhatOurRoutesLeave) {
  for (const int ranks : {2, 3}) {
    const auto run = [&](const Body& body) {
      expect_no_errors(run_ranks(Way::mpi, std::vector<Body>(static_cast<std::size_t>(ranks), body)));
    };
    run(expect_all_same<float>);
    run(expect_all_same<double>);
    run(expect_all_same<std::int32_t>);
    run(expect_all_same<std::int64_t>);
    run(expect_all_same<std::uint8_t>);
  }
}

TEST(NativeRoute, IsCountedAsWhatIsHandedOver) {
  struct Expected {
    Collective collective;
    std::uint64_t out[3], in[3];  // bytes of 12 fp32 on three ranks, root 1
  };
  static constexpr Expected expected[]{
      {Collective::all_reduce, {48, 48, 48}, {48, 48, 48}}, {Collective::reduce_scatter, {32, 32, 32}, {16, 16, 16}},
      {Collective::all_gather, {16, 16, 16}, {32, 32, 32}}, {Collective::broadcast, {0, 48, 0}, {48, 0, 48}},
      {Collective::reduce, {48, 0, 48}, {0, 48, 0}},        {Collective::gather, {16, 0, 16}, {0, 32, 0}},
      {Collective::scatter, {0, 32, 0}, {16, 0, 16}},       {Collective::all_to_all, {32, 32, 32}, {32, 32, 32}}};
  auto body = [](Endpoint* e) -> Task<> {
    for (const Expected& one : expected) {
      const Communicator comm = all_of(e);
      std::vector<float> numbers(12);
      ExecuteOptions options;
      options.root = 1;
      co_await run_collective(native::route(one.collective), comm, NumberSpan(numbers), options);
      const observe::Traffic found = exchanged(comm);
      EXPECT_EQ(found.payload_sent, one.out[comm.rank()])
          << transport::name(one.collective) << " on rank " << comm.rank();
      EXPECT_EQ(found.payload_received, one.in[comm.rank()])
          << transport::name(one.collective) << " on rank " << comm.rank();
      EXPECT_EQ(found.framing_sent, 0u);
    }
  };
  expect_no_errors(run_ranks(Way::mpi, std::vector<Body>(3, body)));
}

/// The averages of several slots, begun in another order on each rank.
TEST(NativeRoute, AveragesSlotsInAnyOrder) {
  auto body = [](Endpoint* e) -> Task<> {
    const Communicator comm = all_of(e);
    constexpr std::size_t slots = 5;
    AveragerOptions options;
    options.route = native::name;
    const auto averager = make_averager(options, std::vector<Slot>(slots, Slot{100}), DType::fp32);
    EXPECT_FALSE(averager->bytes_sent(0, comm.world(), 0));
    std::vector<std::vector<float>> numbers(slots);
    for (int round = 1; round <= 3; ++round) {
      std::vector<Task<>> averages;
      for (std::size_t i = 0; i < slots; ++i) {
        const std::size_t slot = (i * (1 + static_cast<std::size_t>(comm.rank() % 2)) + i + comm.rank()) % slots;
        numbers[slot].assign(100, static_cast<float>(round * static_cast<int>(slot + 1)));
        averages.push_back(averager->average(comm, slot, NumberSpan(numbers[slot]), 1.0 / comm.size()));
      }
      Task<> together = all(comm.runtime(), std::move(averages), comm.ending());
      co_await std::move(together);
      for (std::size_t slot = 0; slot < slots; ++slot) {
        for (const float number : numbers[slot]) EXPECT_NEAR(number, round * (slot + 1.0), 1e-5);
      }
    }
  };
  expect_no_errors(run_ranks(Way::mpi, std::vector<Body>(4, body)));
}

TEST(NativeRoute, ALoneRankKeepsItsNumbers) {
  auto body = [](Endpoint* e) -> Task<> {
    const Communicator comm = all_of(e);
    for (const Collective collective : collectives) {
      std::vector<float> numbers{1, 2, 3};
      co_await run_collective(native::route(collective), comm, NumberSpan(numbers), {});
      EXPECT_EQ(numbers, (std::vector<float>{1, 2, 3})) << transport::name(collective);
    }
  };
  expect_no_errors(run_ranks(Way::tcp, {body}));
}

TEST(NativeRoute, SaysWhatItCannotDo) {
  auto body = [](Endpoint* e) -> Task<> {
    const Communicator comm = all_of(e);
    std::vector<double> numbers(10);
    const auto error_of = [&](const Communicator& of, NumberSpan span, ExecuteOptions options) {
      try {
        (void)run_collective(native::route(), of, span, options);
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string("none");
    };
    EXPECT_EQ(error_of(comm, NumberSpan(numbers), {DType::fp32}),
              "route native hands fp64 over as they are, not as fp32: take another route, or send them as they are");
    EXPECT_EQ(error_of(comm, NumberSpan(reinterpret_cast<std::byte*>(numbers.data()), 10, DType::bf16), {DType::bf16}),
              text("route native is MPI's own all-reduce, which the communicator of all ranks has over transport mpi, "
                   "for fp32, fp64, int64, int32 and uint8; here it is asked for bf16 on that of 2 of 2 ranks, over ",
                   e->way(1 - e->rank()), ": take another route"));
    const Communicator reversed(comm.shared_endpoint(), {1, 0}, 5);
    EXPECT_NE(
        error_of(reversed, NumberSpan(numbers), {DType::fp64}).find("on one that was made later, of 2 of 2 ranks"),
        std::string::npos);
    co_return;
  };
  for (const Way way : {Way::mpi, Way::tcp}) expect_no_errors(run_ranks(way, std::vector<Body>(2, body)));
  AveragerOptions options;
  options.small_route = native::name;
  EXPECT_THROW(make_averager(options, {Slot{10}}, DType::fp32), Error);
  options.small_route = "auto";
  options.route = native::name;
  options.codec.name = "fp16";
  try {
    make_averager(options, {Slot{10}}, DType::fp32);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "codec fp16 cannot be averaged along route native, which hands fp32 over as they are; take another "
                 "route, or codec auto");
  }
}

}  // namespace
}  // namespace ripieno::collective
