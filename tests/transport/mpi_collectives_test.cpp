// MPI's own collectives as an endpoint's engine: order, errors and ends. What they compute:
// tests/collective/native_test.cpp.
#include "ripieno/transport/mpi/collectives.h"

#include <gtest/gtest.h>

#include <barrier>

#include "tests/transport/abort_kit.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

Task<> reduce(Endpoint* e, std::vector<float>* numbers, std::uint32_t channel = 0, EngineTerms terms = {}) {
  return e->run_engine(Collective::all_reduce, message(numbers->size(), channel, "native"), NumberSpan(*numbers),
                       terms);
}

/// As run_ranks(), over an MPI that the test holds; each endpoint ends with its body.
std::vector<std::string> errors_over(const std::shared_ptr<OwnMpiWorld>& world, const std::vector<Body>& bodies,
                                     LinkOptions options = {}) {
  std::vector<std::string> errors(bodies.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < bodies.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto runtime = real_runtime(static_cast<int>(rank));
      const auto endpoint = mpi_endpoint(*runtime, std::make_shared<OwnMpi>(world, static_cast<int>(rank)), options);
      try {
        runtime->spawn("rank", bodies[rank](endpoint.get()));
        runtime->run();
      } catch (const Error& caught) {
        errors[rank] = caught.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
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
      "add, root 0, as number 3 of the channel that it has opened as number 1: the ranks do not run the same recipe";
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

TEST(MpiCollectives, ARankThatLeavesInTheMidstOfOneIsMissed) {
  const auto world = std::make_shared<OwnMpiWorld>(3);
  std::vector<float> abandoned(1000, 1);
  const Body leaves = [&](Endpoint* e) -> Task<> {
    co_await reduce(e, &abandoned);
    e->runtime().spawn("abandoned", reduce(e, &abandoned));
    co_await settle(e);
    fail(ErrorKind::data, "rank 0 has had enough");
  };
  const Body waits = [](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    co_await reduce(e, &numbers);
  };
  const Body stays = [](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    co_await e->receive(1, message(1000, 1), bytes(numbers));
  };
  ::testing::internal::CaptureStderr();
  const std::vector<std::string> errors = errors_over(world, {leaves, waits, stays});
  ::testing::internal::GetCapturedStderr();
  const std::string gave_up =
      "gave up on MPI's own all-reduce (native of 1000 fp32 on exchange channel 0): a rank no longer takes part in it";
  EXPECT_EQ(errors[0], "rank 0 has had enough");
  EXPECT_EQ(errors[1], "rank 1: " + gave_up);
  EXPECT_EQ(errors[2], "rank 2: rank 1 gave up: " + gave_up);
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
  EXPECT_EQ(outcomes[0].error,
            "rank 0: gave up on MPI's own all-reduce (native of 1000 fp32 on exchange channel 0): a rank no longer "
            "takes part in it");
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
  EXPECT_EQ(outcomes[0].error,
            "rank 0: gave up on MPI's communicator 1 of those that each bucket has (exchange.bucket_mb): a rank no "
            "longer takes part in it");
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
  const Body waiting = [&](Endpoint* e) -> Task<> {
    std::vector<float> numbers(10);
    co_await reduce(e, &numbers);
    waits.count_down();
    co_await reduce(e, &numbers);
  };
  const Body breaking = [&](Endpoint* e) -> Task<> {
    std::vector<float> numbers(10);
    co_await reduce(e, &numbers);
    waits.wait();
    co_await settle(e);
    const std::lock_guard lock(world->mutex);
    world->broken = true;
  };
  ::testing::internal::CaptureStderr();
  const std::vector<std::string> errors = errors_over(world, {waiting, breaking});
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(errors[0],
            "rank 0: gave up on MPI's own all-reduce (native of 10 fp32 on exchange channel 0): MPI is on fire");
}

TEST(MpiCollectives, AnErrorOfMpiBetweenThemEndsTheNext) {
  const auto world = std::make_shared<OwnMpiWorld>(2);
  std::barrier both(2);
  const auto rank = [&](bool breaks) -> Body {
    return [&both, &world, breaks](Endpoint* e) -> Task<> {
      std::vector<float> numbers(10);
      co_await reduce(e, &numbers);
      both.arrive_and_wait();
      if (breaks) {
        const std::lock_guard lock(world->mutex);
        world->broken = true;
      }
      both.arrive_and_wait();
      co_await settle(e);
      co_await reduce(e, &numbers);
    };
  };
  ::testing::internal::CaptureStderr();
  const std::vector<std::string> errors = errors_over(world, {rank(true), rank(false)});
  ::testing::internal::GetCapturedStderr();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(errors[i], text("rank ", i, ": MPI has failed: MPI is on fire"));
}

TEST(MpiCollectives, OneThatMpiDoesNotBeginEndsAll) {
  const auto world = std::make_shared<OwnMpiWorld>(2);
  world->starts_none = 0;
  const Body body = [](Endpoint* e) -> Task<> {
    std::vector<float> numbers(10);
    co_await reduce(e, &numbers);
  };
  ::testing::internal::CaptureStderr();
  const std::vector<std::string> errors = errors_over(world, {body, body});
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(errors[0], "rank 0: MPI has failed: MPI is out of memory");
  EXPECT_EQ(errors[1], "rank 1: rank 0 gave up: MPI has failed: MPI is out of memory");
}

/// And with it all that its rank does: an MPI call could still move the numbers of the abandoned collective.
TEST(MpiCollectives, OneThatDoesNotEndIsGivenUp) {
  const auto world = std::make_shared<OwnMpiWorld>(2);
  LinkOptions options;
  options.timeout = std::chrono::milliseconds(500);
  std::latch over{1};
  const std::string reducing = "gave up on MPI's own all-reduce (native of 1000 fp32 on exchange channel 0): ",
                    gave_up = reducing + "it has not ended within 0.5 s",
                    lost = "rank 0: lost rank 1 (" + reducing + "a rank no longer takes part in it) ";
  const Body waits = [&](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1), others(10);
    co_await reduce(e, &numbers);
    Side side(e);
    const auto reducing = side.start(reduce(e, &numbers));
    const Duration a_while = std::chrono::milliseconds(1200);  // its own limit comes later than the reduction's end
    co_await e->runtime().sleep(a_while);
    const auto receiving = side.start(e->receive(1, in_scope(5, 10), bytes(others)));
    co_await side.landed();
    EXPECT_EQ(side.end(reducing), "rank 0: " + gave_up);
    EXPECT_EQ(side.end(receiving), lost + "while waiting for test of 10 fp32 on exchange channel 0");
    const auto calls = [&] {
      const std::lock_guard lock(world->mutex);
      return world->calls[0];
    };
    const int before = calls();
    const auto sending = side.start(e->send(1, in_scope(5, 10), bytes(others)));
    co_await settle(e);
    EXPECT_EQ(side.end(sending), lost + "while sending test of 10 fp32 on exchange channel 0");
    EXPECT_EQ(calls(), before);
    over.count_down();
  };
  const Body stands_still = [&](Endpoint* e) -> Task<> {
    std::vector<float> numbers(1000, 1);
    co_await reduce(e, &numbers);
    over.wait();
    co_await e->receive(0, message(1000, 1), bytes(numbers));
  };
  ::testing::internal::CaptureStderr();
  const std::vector<std::string> errors = errors_over(world, {waits, stands_still}, options);
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "rank 1: rank 0 gave up: " + gave_up);
}

}  // namespace
}  // namespace ripieno::transport
