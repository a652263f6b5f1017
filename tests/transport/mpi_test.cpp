// What only links over MPI do, with an MPI of the test's own; the others' tests, they pass by Way::mpi (ranks.h).
#include "ripieno/transport/mpi/endpoint.h"

#include <gtest/gtest.h>

#include "ripieno/core/async.h"
#include "ripieno/transport/mpi/hub.h"
#include "ripieno/transport/mpi/library.h"
#include "tests/transport/abort_kit.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;
using Where = WatchedNumbers::Where;

constexpr std::size_t large = 100'000;  // numbers: such a payload travels alone

/// Runs body(endpoint) on every rank.
std::shared_ptr<OwnMpiWorld> run_over_mpi(std::vector<Body> bodies, std::vector<std::string>* errors,
                                          LinkOptions options = {}) {
  const int ranks = static_cast<int>(bodies.size());
  const auto world = std::make_shared<OwnMpiWorld>(ranks);
  errors->assign(bodies.size(), "");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto runtime = real_runtime(static_cast<std::uint64_t>(rank));
      const auto endpoint = mpi_endpoint(*runtime, std::make_shared<OwnMpi>(world, rank), options);
      try {
        runtime->spawn(text("rank ", rank), bodies[static_cast<std::size_t>(rank)](endpoint.get()));
        runtime->run();
      } catch (const Error& error) {
        (*errors)[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return world;
}

TEST(Mpi, IsStoppedByAllOnceAllHaveClosed) {
  std::vector<std::string> errors;
  auto body = [](Endpoint* e) -> Task<> {
    EXPECT_EQ(e->way(1 - e->rank()), "MPI");
    std::vector<float> numbers(large, 1.0f), in(large);
    Task<> sending = e->send(1 - e->rank(), message(large), const_bytes(numbers));
    Task<> receiving = e->receive(1 - e->rank(), message(large), bytes(in));
    co_await both(e->runtime(), std::move(sending), std::move(receiving), revoke_on_error);
    EXPECT_EQ(in, numbers);
  };
  const auto world = run_over_mpi({body, body}, &errors);
  EXPECT_EQ(errors, std::vector<std::string>(2));
  EXPECT_EQ(world->stopped, 2);
  EXPECT_TRUE(world->sends.empty());
  EXPECT_TRUE(world->receives.empty());
  EXPECT_TRUE(world->done.empty());
}

TEST(Mpi, ALargePayloadBeyondTheCreditStaysWithItsSender) {
  std::vector<std::string> errors;
  std::latch asked{1};
  auto sender = [&asked](Endpoint* e) -> Task<> {
    Side side(e);
    const auto sending = side.start(send_filled(e, 1, message(large), 1, Where::heap));
    const auto small = side.start(send_filled(e, 1, message(10, 1), 2, Where::heap));
    co_await settle(e);
    EXPECT_EQ(side.end(sending), "");
    EXPECT_EQ(side.end(small), "done");
    asked.count_down();
    co_await side.landed();
    EXPECT_EQ(side.end(sending), "done");
  };
  auto receiver = [&asked](Endpoint* e) -> Task<> {
    Side side(e);
    const auto small = side.start(receive_filled(e, 0, message(10, 1), 2, Where::heap, false));
    co_await side.landed();
    EXPECT_EQ(side.end(small), "done");  // another channel does not wait
    asked.wait();
    const auto receiving = side.start(receive_filled(e, 0, message(large), 1, Where::heap, true));
    co_await side.landed();
    EXPECT_EQ(side.end(receiving), "done");
  };
  run_over_mpi({sender, receiver}, &errors, {.unasked_bytes = 1000});
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(Mpi, SmallPayloadsBeyondTheCreditWaitInMpi) {
  std::vector<std::string> errors;
  constexpr int count = 200;
  std::latch sent{1};
  auto sender = [&sent](Endpoint* e) -> Task<> {
    std::vector<float> out(100);
    for (int i = 0; i < count; ++i) {
      out[0] = static_cast<float>(i);
      co_await e->send(1, message(100), const_bytes(out));
    }
    co_await e->send(1, message(0, 1), ConstBytes());
    sent.count_down();
  };
  auto receiver = [&sent](Endpoint* e) -> Task<> {
    sent.wait();
    co_await settle(e);
    std::vector<float> in(100);
    for (int i = 0; i < count; ++i) {
      co_await e->receive(0, message(100), bytes(in));
      EXPECT_EQ(in[0], static_cast<float>(i));
    }
    co_await e->receive(0, message(0, 1), Bytes());
  };
  run_over_mpi({sender, receiver}, &errors, {.unasked_bytes = 4000});
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(Mpi, AnAbortedSendEndsOnceItsPeerHasDroppedIt) {
  std::vector<std::string> errors;
  std::latch aborted{1};
  auto sender = [&aborted](Endpoint* e) -> Task<> {
    Side side(e);
    const auto sending = side.start(send_filled(e, 1, in_scope(7, large), 1, Where::heap));
    co_await settle(e);
    e->abort(7, everyone(e), the_cause());
    co_await settle(e);
    EXPECT_EQ(side.end(sending), "");  // MPI still has its memory
    aborted.count_down();
    co_await side.landed();
    EXPECT_EQ(side.end(sending), "the cause");
    co_await meet_all(e);
  };
  auto receiver = [&aborted](Endpoint* e) -> Task<> {
    aborted.wait();
    Side side(e);
    const auto receiving = side.start(receive_filled(e, 0, in_scope(7, large), 1, Where::heap, false));
    co_await side.landed();
    EXPECT_EQ(side.end(receiving), end_of(1, 0));
    co_await meet_all(e);
  };
  run_over_mpi({sender, receiver}, &errors, {.unasked_bytes = 1000});
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(Mpi, WhatALeavingRankHadSentCanStillBeReceived) {
  std::vector<std::string> errors;
  const std::vector<float> numbers(large, 5.0f);
  auto leaves = [&numbers](Endpoint* e) -> Task<> {
    e->runtime().start("a send that nobody waits for", e->send(1, message(large), const_bytes(numbers)),
                       [](std::exception_ptr) {});
    co_await settle(e);
    fail(ErrorKind::data, "rank 0 has had enough");
  };
  auto stays = [&numbers](Endpoint* e) -> Task<> {
    co_await settle(e);
    std::vector<float> in(large);
    co_await e->receive(0, message(large), bytes(in));
    EXPECT_EQ(in, numbers);
    co_await e->receive(0, message(large), bytes(in));
  };
  const auto world = run_over_mpi({leaves, stays}, &errors);
  EXPECT_EQ(errors[0], "rank 0 has had enough");
  EXPECT_EQ(errors[1],
            "rank 1: lost rank 0 (connection closed) while waiting for test of 100000 fp32 on exchange channel 0");
  EXPECT_EQ(world->stopped, 2);
}

TEST(Mpi, AnErrorOfMpiEndsEverything) {
  std::vector<std::string> errors;
  std::shared_ptr<OwnMpiWorld> world = std::make_shared<OwnMpiWorld>(2);
  std::latch both_wait{2};
  std::vector<std::thread> threads;
  errors.resize(2);
  ::testing::internal::CaptureStderr();
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto runtime = real_runtime(0);
      const auto endpoint = mpi_endpoint(*runtime, std::make_shared<OwnMpi>(world, rank), {});
      auto waits = [&](Endpoint* e) -> Task<> {
        std::vector<float> in(10);
        both_wait.count_down();
        co_await e->receive(1 - e->rank(), message(10), bytes(in));
      };
      runtime->spawn("waits", waits(endpoint.get()));
      try {
        runtime->run();
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  both_wait.wait();
  {
    const std::lock_guard lock(world->mutex);
    world->broken = true;
  }
  for (auto& thread : threads) thread.join();
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const char* rank : {"0", "1"}) {
    EXPECT_NE(said.find(text("rank ", rank, ": ends without MPI_Finalize: MPI has failed")), std::string::npos) << said;
  }
  EXPECT_EQ(errors[0], "rank 0: lost rank 1 (MPI is on fire) while waiting for test of 10 fp32 on exchange channel 0");
  EXPECT_EQ(world->stopped, 0);
}

TEST(Mpi, WithoutItsLauncherOrPlugInSaysWhatToDo) {
  const auto runtime = real_runtime(0);
  Joining joining{*runtime, 0, 2};
  joining.mpi.unknown = "this one was started by torchrun";
  const auto error_of = [&] {
    try {
      start_mpi(joining);
    } catch (const Error& error) {
      return text(error.what());
    }
    return text("none");
  };
  EXPECT_EQ(error_of(),
            "transport mpi needs processes that an MPI's launcher started: this one was started by torchrun");
  joining.mpi.kind = "MPICH";
  joining.mpi.plugin = "/nowhere/plugin.so";
  EXPECT_NE(error_of().find("the plug-in for MPI cannot be loaded: /nowhere/plugin.so"), std::string::npos);
}

}  // namespace
}  // namespace ripieno::transport
