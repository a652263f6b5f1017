// MPI's own collectives as an endpoint's engine: order, errors and ends. What they compute:
// tests/collective/native_test.cpp.
#include "ripieno/transport/mpi/collectives.h"

#include <gtest/gtest.h>

#include "tests/transport/abort_kit.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

Task<> reduce(Endpoint* e, std::vector<float>* numbers, std::uint32_t channel = 0, EngineTerms terms = {}) {
  return e->run_engine(Collective::all_reduce, message(numbers->size(), channel, "native"), NumberSpan(*numbers),
                       terms);
}

TEST(MpiCollectives, ChannelsDoNotWaitForEachOther) {
  auto body = [](Endpoint* e) -> Task<> {
    for (std::uint32_t channel = 0; channel < 8; ++channel) e->open_engine(message(0, channel).channel);
    for (int round = 0; round < 20; ++round) {
      Side side(e);
      std::vector<std::vector<float>> numbers(8);
      for (std::uint32_t i = 0; i < 8; ++i) {
        const std::uint32_t channel = e->rank() == 0 ? i : 7 - i;
        numbers[channel].assign(10 + channel * 1000, static_cast<float>(channel));
        side.start(reduce(e, &numbers[channel], channel));
      }
      co_await side.landed();
      for (std::uint32_t channel = 0; channel < 8; ++channel) {
        EXPECT_EQ(side.end(channel), "done");
        EXPECT_EQ(numbers[channel], std::vector<float>(10 + channel * 1000, 3.0f * static_cast<float>(channel)));
      }
    }
  };
  expect_no_errors(run_ranks(Way::mpi, std::vector<Body>(3, body)));
}

TEST(MpiCollectives, RanksThatWantDifferentThingsAreTold) {
  const auto errors_of = [](const Body& first, const Body& second) {
    const std::vector<Outcome> outcomes = run_ranks(Way::mpi, {first, second}, hasty(), true);
    for (const Outcome& one : outcomes) EXPECT_NE(one.error, "");
    return outcomes[0].error + "\n" + outcomes[1].error;
  };
  const auto asks = [](std::size_t count, EngineTerms terms = {}, Collective collective = Collective::all_reduce) {
    return [=](Endpoint* e) -> Task<> {
      std::vector<float> numbers(count);
      co_await e->run_engine(collective, message(count, 0, "native"), NumberSpan(numbers), terms);
    };
  };
  EXPECT_NE(errors_of(asks(10), asks(11)).find("waits for native of 10 fp32"), std::string::npos)
      << errors_of(asks(10), asks(11));
  const std::string roots = errors_of(asks(10, {numeric::Reduce::add, 0}, Collective::reduce),
                                      asks(10, {numeric::Reduce::add, 1}, Collective::reduce));
  EXPECT_NE(roots.find("asks MPI for reduce, add, root "), std::string::npos) << roots;
  const std::string hows = errors_of(asks(10, {numeric::Reduce::add}), asks(10, {numeric::Reduce::maximum}));
  EXPECT_NE(hows.find("asks MPI for all-reduce, maximum, root 0"), std::string::npos) << hows;
}

TEST(MpiCollectives, AnAbortedOneEndsOnceAllTookPart) {
  std::latch aborted{1};
  auto begins = [&aborted](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    Side side(e);
    const auto reducing = side.start(reduce(e, &numbers));
    co_await settle(e);
    e->abort(0, everyone(e), the_cause());
    co_await settle(e);
    EXPECT_EQ(side.end(reducing), "");  // MPI still has its memory
    aborted.count_down();
    co_await side.landed();
    EXPECT_EQ(side.end(reducing), "the cause");
  };
  auto comes_late = [&aborted](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    aborted.wait();
    Side side(e);
    const auto reducing = side.start(reduce(e, &numbers));  // before it hears of the abort
    co_await side.landed();
    expect_done_or(end_of(1, 0), side.end(reducing));
  };
  ::testing::internal::CaptureStderr();
  run_ranks(Way::mpi, {begins, comes_late}, hasty(), true);
  ::testing::internal::GetCapturedStderr();
}

TEST(MpiCollectives, WithoutARankItEndsAfterASecond) {
  auto waits = [](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    co_await reduce(e, &numbers);
  };
  auto leaves = [](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    co_await settle(e);
    fail(ErrorKind::data, "rank 1 has had enough");
  };
  ::testing::internal::CaptureStderr();
  const std::vector<Outcome> outcomes = run_ranks(Way::mpi, {waits, leaves}, {}, true);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(
      outcomes[0].error,
      "rank 0: gave up on MPI's own native of 1000 fp32 on exchange channel 0: a rank no longer takes part in it");
  EXPECT_NE(said.find("rank 0: ends without MPI_Finalize"), std::string::npos) << said;
}

TEST(MpiCollectives, WithoutARankNoChannelOpens) {
  auto waits = [](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
  };
  auto leaves = [](Endpoint* e) -> Task<> {
    co_await settle(e);
    fail(ErrorKind::data, "rank 1 has had enough");
  };
  ::testing::internal::CaptureStderr();
  const std::vector<Outcome> outcomes = run_ranks(Way::mpi, {waits, leaves}, {}, true);
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(outcomes[0].error, "rank 0: gave up on MPI's copying of a communicator: a rank no longer takes part in it");
}

/// One rank alone opens a channel, which it cannot.
TEST(MpiCollectives, AnEndDoesNotWaitForAChannelThatOthersDoNotOpen) {
  auto opens = [](Endpoint* e) -> Task<> {
    e->open_engine(message(0).channel);
    co_return;
  };
  auto does_nothing = [](Endpoint*) -> Task<> { co_return; };
  ::testing::internal::CaptureStderr();
  run_ranks(Way::mpi, {opens, does_nothing}, {}, true);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("rank 0: ends without MPI_Finalize"), std::string::npos);
}

TEST(MpiCollectives, AnErrorOfMpiEndsIt) {
  const auto world = std::make_shared<OwnMpiWorld>(2);
  std::latch waits{1};
  std::string error;
  ::testing::internal::CaptureStderr();
  const auto rank = [&](int which, const Body& body) {
    const auto runtime = real_runtime(0);
    const auto endpoint = mpi_endpoint(*runtime, std::make_shared<OwnMpi>(world, which), {});
    try {
      runtime->spawn("rank", body(endpoint.get()));
      runtime->run();
    } catch (const Error& caught) {
      error = caught.what();
    }
  };
  std::thread other([&] {
    rank(1, [&](Endpoint* e) -> Task<> {
      std::vector<float> numbers(10);
      co_await reduce(e, &numbers);
      waits.wait();
      co_await settle(e);
      const std::lock_guard lock(world->mutex);
      world->broken = true;
    });
  });
  rank(0, [&](Endpoint* e) -> Task<> {
    std::vector<float> numbers(10);
    co_await reduce(e, &numbers);
    waits.count_down();
    co_await reduce(e, &numbers);
  });
  other.join();
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(error, "rank 0: gave up on MPI's own native of 10 fp32 on exchange channel 0: MPI is on fire");
}

TEST(MpiCollectives, OneThatDoesNotEndIsGivenUp) {
  transport::SharedOptions options;
  options.link.timeout = std::chrono::milliseconds(200);
  std::latch over{1};
  auto waits = [&over](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    Side side(e);
    const auto reducing = side.start(reduce(e, &numbers));
    co_await side.landed();
    EXPECT_EQ(side.end(reducing),
              "rank 0: gave up on MPI's own native of 1000 fp32 on exchange channel 0: it has not ended within 0.2 s");
    over.count_down();
  };
  auto stands_still = [&over](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    over.wait();
  };
  ::testing::internal::CaptureStderr();
  run_ranks(Way::mpi, {waits, stands_still}, options, true);
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace ripieno::transport
