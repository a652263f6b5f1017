// MPI's own collectives as an endpoint's engine: order, ranks that part and that leave. How they fail:
// mpi_collectives_failure_test.cpp. What they compute:
// tests/collective/native_test.cpp.
#include "ripieno/transport/mpi/collectives.h"

#include <gtest/gtest.h>

#include "tests/transport/mpi_collectives.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

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
  EXPECT_NE(roots.find("asks MPI for reduce (native of 10 fp32 on exchange channel 0), add, root "), std::string::npos)
      << roots;
  const std::string hows = errors_of(asks(10, {numeric::Reduce::add}), asks(10, {numeric::Reduce::maximum}));
  EXPECT_NE(hows.find("asks MPI for all-reduce (native of 10 fp32 on exchange channel 0), maximum, root 0"),
            std::string::npos)
      << hows;
}

TEST(MpiCollectives, ARankThatRepeatsItsLastSeesThatAnotherDoesNot) {
  const auto asks = [](std::size_t second) {
    return [second](Endpoint* e) -> Task<> {
      for (const std::size_t count : {std::size_t{10}, std::size_t{10}, second}) {
        std::vector<float> numbers(count);
        co_await reduce(e, &numbers);
      }
    };
  };
  ::testing::internal::CaptureStderr();
  const std::vector<Outcome> outcomes = run_ranks(Way::mpi, {asks(10), asks(11)}, hasty(), true);
  ::testing::internal::GetCapturedStderr();
  const std::string parted =
      "rank 0 asks MPI for all-reduce (native of 10 fp32 on exchange channel 0), add, root 0, as number 3 of the "
      "channel that it has opened as number 1, but rank 1 for all-reduce (native of 11 fp32 on exchange channel 0), "
      "add, root 0, as number 3 of the channel that it has opened as number 1: the ranks do not do the same";
  EXPECT_EQ(outcomes[0].error, parted);
  EXPECT_EQ(outcomes[0].kind, ErrorKind::mismatch);
  EXPECT_EQ(outcomes[1].error, "rank 1: rank 0 gave up: " + parted);
}

/// A rank whose part is done may leave before others have ended theirs.
TEST(MpiCollectives, ARankThatTookPartMayLeave) {
  const auto world = std::make_shared<OwnMpiWorld>(2);
  const auto slow = [&world](int rank) {
    const std::lock_guard lock(world->mutex);
    world->slow = rank;
  };
  const Body ends_late = [&](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    slow(0);
    const Duration longer_than_grace = std::chrono::milliseconds(1500);
    e->runtime().call_at(e->runtime().now() + longer_than_grace, [&slow] { slow(-1); });
    co_await reduce(e, &numbers);
    EXPECT_EQ(numbers, std::vector<float>(1000, 4));
  };
  const Body leaves = [](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    co_await reduce(e, &numbers);
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(errors_over(world, {ends_late, leaves}), std::vector<std::string>(2));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(world->stopped, 2);
}

/// Nor is MPI ended before all are.
TEST(MpiCollectives, ARankThatIsDoneWaitsForTheOthers) {
  const auto world = std::make_shared<OwnMpiWorld>(2);
  const Body goes_on = [&world](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    const Duration a_while = std::chrono::milliseconds(100);
    co_await e->runtime().sleep(a_while);
    const std::lock_guard lock(world->mutex);
    EXPECT_EQ(world->stopped, 0);
  };
  const Body leaves = [](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
  };
  EXPECT_EQ(errors_over(world, {goes_on, leaves}), std::vector<std::string>(2));
  EXPECT_EQ(world->stopped, 2);
}

/// A message of another kind that a neighbour has sent already is not taken for its comparison.
TEST(MpiCollectives, OtherMessagesMayComeOnTheSameChannel) {
  const auto world = std::make_shared<OwnMpiWorld>(2);
  const auto slow = [&world](int rank) {
    const std::lock_guard lock(world->mutex);
    world->slow = rank;
  };
  const Body ends_late = [&](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1), zeros(8, 1);
    co_await reduce(e, &numbers);
    slow(0);
    const Duration a_while = std::chrono::milliseconds(50);
    e->runtime().call_at(e->runtime().now() + a_while, [&slow] { slow(-1); });
    co_await reduce(e, &numbers);
    co_await e->receive(1, message(8), bytes(zeros));
    EXPECT_EQ(zeros, std::vector<float>(8));
  };
  const Body is_ahead = [](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1), zeros(8);
    co_await reduce(e, &numbers);
    co_await reduce(e, &numbers);
    co_await e->send(0, message(8), bytes(zeros));
  };
  EXPECT_EQ(errors_over(world, {ends_late, is_ahead}), std::vector<std::string>(2));
}

/// Ranks may end before all channels are open that they have asked for.
TEST(MpiCollectives, AnEndMayComeBeforeChannelsAreOpen) {
  for (int round = 0; round < 20; ++round) {
    const auto world = std::make_shared<OwnMpiWorld>(3);
    const Body body = [](Endpoint* e) -> Task<> {
      for (std::uint32_t channel = 0; channel < 20; ++channel) e->open_engine(message(0, channel).channel);
      std::vector<float> numbers(10);
      co_await reduce(e, &numbers);
    };
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(errors_over(world, {body, body, body}), std::vector<std::string>(3));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(world->stopped, 3);
  }
}

}  // namespace
}  // namespace ripieno::transport
