// How MPI's own collectives fail: aborts, errors of MPI, ranks that are missing.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/transport/mpi_collectives.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

TEST(MpiCollectivesFailure, ARankThatLeavesInTheMidstOfOneIsMissed) {
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

TEST(MpiCollectivesFailure, AnAbortedOneEndsOnceAllTookPart) {
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

TEST(MpiCollectivesFailure, WithoutARankItEndsAfterASecond) {
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

TEST(MpiCollectivesFailure, WithoutARankNoChannelOpens) {
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
TEST(MpiCollectivesFailure, AnEndDoesNotWaitForAChannelThatOthersDoNotOpen) {
  auto opens = [](Endpoint* e) -> Task<> {
    e->open_engine(message(0).channel);
    co_return;
  };
  auto does_nothing = [](Endpoint*) -> Task<> { co_return; };
  ::testing::internal::CaptureStderr();
  run_ranks(Way::mpi, {opens, does_nothing}, {}, true);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("rank 0: ends without MPI_Finalize"), std::string::npos);
}

TEST(MpiCollectivesFailure, AnErrorOfMpiEndsIt) {
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

TEST(MpiCollectivesFailure, AnErrorOfMpiBetweenThemEndsTheNext) {
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

TEST(MpiCollectivesFailure, OneThatMpiDoesNotBeginEndsAll) {
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
TEST(MpiCollectivesFailure, OneThatDoesNotEndIsGivenUp) {
  const auto world = std::make_shared<OwnMpiWorld>(2);
  LinkOptions options;
  options.timeout = std::chrono::milliseconds(500);
  std::latch over{1};
  const std::string reducing = "gave up on MPI's own all-reduce (native of 1000 fp32 on exchange channel 0): ",
                    gave_up = reducing + "it has not ended within 0.5 s: rank 0 waits for 1, 1 does not answer",
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
