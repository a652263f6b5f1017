#include "ripieno/membership/clocks.h"

#include <gtest/gtest.h>

#include "ripieno/transport/simulated/network.h"
#include "tests/transport/ranks.h"

namespace ripieno::membership {
namespace {

using testing::run_ranks;
using testing::Way;

Task<> ask(std::shared_ptr<transport::Endpoint> endpoint, ClockOffset* offset) {
  *offset = co_await clock_offset(endpoint, {observe::Purpose::setup, 1});
}

/// In virtual time all ranks have the same clock, and every way takes as long there as back.
TEST(Clocks, OfOneClockAreNotApart) {
  const auto runtime = virtual_runtime(0);
  transport::SimulatedNetwork network(*runtime, 5, {});
  std::vector<ClockOffset> offsets(5, {Duration(1), Duration(-1)});
  for (int rank = 0; rank < 5; ++rank)
    runtime->spawn(text("rank ", rank), ask(network.endpoint(rank), &offsets[static_cast<std::size_t>(rank)]));
  runtime->run();
  for (const auto& [ahead, error] : offsets) {
    EXPECT_LE(std::abs(ahead.count()), 1);
    EXPECT_GE(error.count(), 0);
  }
}

/// Threads of this process: the steady clock tells what is true. What rank 0 is asked lies between asking and hearing.
TEST(Clocks, AreFoundWithinARoundTrip) {
  struct Seen {
    ClockOffset offset;
    Duration asking{0};
    Duration before{0}, after{0};               // this rank's time
    std::chrono::steady_clock::time_point now;  // between them
  };
  std::vector<Seen> seen(3);
  const auto asks = [&seen](transport::Endpoint* e) -> Task<> {
    Seen& mine = seen[static_cast<std::size_t>(e->rank())];
    const Duration late = std::chrono::milliseconds(7 * e->rank());
    co_await e->runtime().sleep(late);
    const Duration start = e->runtime().now();
    const std::shared_ptr<transport::Endpoint> endpoint(std::shared_ptr<void>(), e);
    mine.offset = co_await clock_offset(endpoint, {observe::Purpose::setup, 1});
    mine.asking = e->runtime().now() - start;
    mine.before = e->runtime().now();
    mine.now = std::chrono::steady_clock::now();
    mine.after = e->runtime().now();
  };
  testing::expect_no_errors(run_ranks(Way::tcp, {asks, asks, asks}));
  EXPECT_EQ(seen[0].offset.ahead.count(), 0);
  EXPECT_EQ(seen[0].offset.error.count(), 0);
  for (std::size_t rank = 1; rank < 3; ++rank) {
    const Seen &zero = seen[0], &mine = seen[rank];
    const double truth =
        seconds(zero.before) - seconds(mine.before) - std::chrono::duration<double>(zero.now - mine.now).count();
    const double reading = seconds((zero.after - zero.before) + (mine.after - mine.before));
    EXPECT_NEAR(seconds(mine.offset.ahead), truth, seconds(mine.offset.error) + reading);
    EXPECT_LE(mine.offset.error, mine.asking / 2);
  }
}

}  // namespace
}  // namespace ripieno::membership
