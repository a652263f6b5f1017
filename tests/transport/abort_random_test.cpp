// Many rounds of messages in three scopes between 2 to 4 ranks, of which some rank aborts one at some moment: the other
// two are as if nothing had been. A round is a function of its seed, up to what threads do.
#include <gtest/gtest.h>

#include "ripieno/core/random.h"
#include "tests/transport/abort_kit.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;
using Where = WatchedNumbers::Where;

#ifdef __SANITIZE_THREAD__
constexpr int rounds_for_each_size = 8;
#else
constexpr int rounds_for_each_size = 67;
#endif

/// One message, as its sender and its receiver know it.
struct Planned {
  int from, to;
  Message message;
  float value;
  Where sent_from, received_in;
  bool adds;
};

struct Plan {
  std::vector<Planned> messages;
  Scope broken = 0;  ///< this scope
  int by = 0;        ///< is aborted by this rank
  int after = 0;     ///< after so many of the messages that it has a part in
};

Plan make_plan(int ranks, int round) {
  Random random(static_cast<std::uint64_t>(ranks), static_cast<std::uint64_t>(round));
  const auto below = [&random](int n) { return static_cast<int>(random.next() % static_cast<std::uint64_t>(n)); };
  Plan plan;
  const Scope first = 10 + 3 * static_cast<Scope>(round);
  const int count = 4 + below(12 * (ranks - 1));
  for (int i = 0; i < count; ++i) {
    const int from = below(ranks), to = (from + 1 + below(ranks - 1)) % ranks;
    const auto size = static_cast<std::size_t>((1 << below(19)) * (1.0 + below(1000) / 1000.0)) - 1;  // up to 2 MiB
    const auto where = [&] { return below(2) ? Where::registered : Where::heap; };
    const Where here = where(), there = where();
    plan.messages.push_back({from, to,
                             in_scope(first + static_cast<Scope>(below(3)), size, static_cast<std::uint32_t>(below(2))),
                             static_cast<float>(i + 2), here, there, below(2) == 0});
  }
  plan.broken = first + static_cast<Scope>(below(3));
  plan.by = below(ranks);
  plan.after = below(count);
  return plan;
}

Task<> play(Endpoint* e, int round, Kept* kept) {
  const Plan plan = make_plan(e->size(), round);
  Random random(static_cast<std::uint64_t>(e->rank()) + 100, static_cast<std::uint64_t>(round));
  Side side(e);
  std::vector<std::pair<std::size_t, const Planned*>> started;
  int left = plan.after;
  for (const Planned& one : plan.messages) {
    if (e->rank() == plan.by && left-- == 0) e->abort(plan.broken, everyone(e), the_cause());
    if (random.next() % 4 == 0) co_await e->runtime().yield();
    if (one.from == e->rank()) {
      started.emplace_back(side.start(send_filled(e, one.to, one.message, one.value, one.sent_from)), &one);
    } else if (one.to == e->rank()) {
      Kept* const keeps = random.next() % 2 ? kept : nullptr;
      started.emplace_back(
          side.start(receive_filled(e, one.from, one.message, one.value, one.received_in, one.adds, keeps)), &one);
    }
  }
  co_await side.landed();
  for (const auto& [i, one] : started) {
    const std::string& end = side.end(i);
    const bool may_fail = one->message.channel.scope == plan.broken;
    EXPECT_TRUE(end == "done" || (may_fail && end == end_of(e->rank(), plan.by)))
        << "round " << round << ", rank " << e->rank() << ", scope " << one->message.channel.scope << ": " << end;
  }
}

Task<> play_all(Endpoint* e) {
  Kept kept;
  for (int round = 0; round < rounds_for_each_size; ++round) co_await play(e, round, &kept);
  co_await meet_all(e);
  expect_untouched(kept);
}

class AbortAtRandom : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(By, AbortAtRandom, ::testing::ValuesIn(every_way_and_time), way_of);

TEST_P(AbortAtRandom, LeavesOtherScopesAsTheyAre) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    expect_no_errors(run_ranks(GetParam(), std::vector<Body>(static_cast<std::size_t>(ranks), play_all), hasty()));
  }
}

}  // namespace
}  // namespace ripieno::transport
