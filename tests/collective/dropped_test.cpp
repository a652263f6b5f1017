// Averages and streams that an abort breaks off at any moment, or that end and are dropped, and that are taken again:
// they give the bits of a run in which nothing was dropped.
#include <gtest/gtest.h>

#include <cmath>

#include "ripieno/collective/encoded.h"
#include "ripieno/numeric/elementwise.h"
#include "tests/collective/averagers.h"

namespace ripieno::collective {
namespace {

using testing::Averagers;
using testing::Numbers;
using testing::Saved;
using testing::weight_of;

/// When an abort begins, in parts of the time that a whole attempt takes; from 1 on, all have ended before it.
constexpr double moments[] = {0, 0.2, 0.45, 0.6, 0.75, 0.9, 1.5};

transport::SimulatedOptions slow_network() {
  transport::SimulatedOptions network;
  network.link.latency = std::chrono::milliseconds(1);
  network.link.per_byte = Duration(1'000'000);  // 1 MB/s
  return network;
}

/// Ranks that make attempts, each over a communicator of its own.
class Attempts {
 public:
  explicit Attempts(World world) : world_(world), cluster_(world.ranks, slow_network()) {
    for (int rank = 0; rank < world.ranks; ++rank) comms_.push_back(cluster_.comm(rank).on_nodes(world.per_node));
  }

  /// The time that `body` takes on all ranks. Where an abort by rank `by` is asked for, `ended` counts the ranks that
  /// end without an error, and the next attempt is made over a communicator anew.
  Duration make(const std::function<Task<>(Communicator)>& body, std::optional<Duration> abort_after = {}, int by = 0) {
    ended = 0;
    if (abort_after) {
      cluster_.runtime().call_at(cluster_.runtime().now() + *abort_after,
                                 [comm = comms_[static_cast<std::size_t>(by)]] {
                                   comm.abort(std::make_exception_ptr(Error(ErrorKind::peer, "dropped")));
                                 });
    }
    const Duration took = cluster_.run([&](Communicator comm) {
      const Communicator& own = comms_[static_cast<std::size_t>(comm.rank())];
      return abort_after ? or_error(this, body(own)) : body(own);
    });
    if (abort_after) {
      for (Communicator& comm : comms_) comm = comm.renewed();
    }
    return took;
  }

  int ended = 0;

 private:
  static Task<> or_error(Attempts* attempts, Task<> task) {
    try {
      co_await std::move(task);
      ++attempts->ended;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::peer) throw;
    }
  }

  World world_;
  VirtualCluster cluster_;
  std::vector<Communicator> comms_;
};

/// A large slot with matrices, and one of less than a block.
std::vector<Slot> dropped_slots() { return {{1003, {{{3, 603}, 20, 30}, {{700, 820}, 12, 10}}}, {7}}; }

/// Averagers whose attempts may be dropped.
struct Group {
  Group(World ranks, const AveragerOptions& options) : world(ranks), attempts(ranks) {
    for (int rank = 0; rank < world.ranks; ++rank) of.push_back(make_averager(options, dropped_slots(), DType::fp64));
  }

  std::vector<Numbers> inputs(int round) const {
    std::vector<Numbers> all;
    for (int rank = 0; rank < world.ranks; ++rank) all.push_back(testing::random_numbers(dropped_slots(), rank, round));
    return all;
  }

  Duration average(std::vector<Numbers>& numbers, std::optional<Duration> abort_after = {}, int by = 0) {
    const auto body = [&](Communicator comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      return both(comm, of[rank].get(), &numbers[rank], weight_of(comm.rank(), world.ranks));
    };
    return attempts.make(body, abort_after, by);
  }
  void commit() {
    for (const auto& averager : of) {
      for (std::size_t slot = 0; slot < dropped_slots().size(); ++slot) averager->commit(slot);
    }
  }

  World world;
  Attempts attempts;
  std::vector<std::unique_ptr<Averager>> of;

 private:
  static Task<> both(Communicator comm, Averager* averager, Numbers* numbers, double weight) {
    std::vector<Task<>> tasks;
    for (std::size_t slot = 0; slot < numbers->size(); ++slot) {
      const NumberSpan span((*numbers)[slot]);
      tasks.push_back(averager->average(comm, slot, span, weight));
    }
    Task<> together = all(comm.runtime(), std::move(tasks), comm.ending());
    co_await std::move(together);
  }
};

TEST(Dropped, AnAverageThatIsTakenAgainGivesTheBitsOfARunWithout) {
  for (const codec::CodecInfo& codec : codec::codecs()) {
    int broken_off = 0, on_some = 0;
    for (const std::string_view name : {"ring", "double-binary-tree", "hierarchical", "direct"}) {
      if (!averages_over(codec.name, name)) continue;
      for (const World world : {World{2}, World{3}, World{4, 2}}) {
        SCOPED_TRACE(text(codec.name, " on ", name, " P=", world.ranks, " M=", world.per_node));
        AveragerOptions options{.route = std::string(name), .seed = 5};
        options.codec = {.name = std::string(codec.name), .block = 64, .fraction = 0.05};
        Group whole(world, options), dropped(world, options);
        for (int round = 0; round < 4; ++round) {
          std::vector<Numbers> expected = whole.inputs(round);
          const Duration took = whole.average(expected);
          whole.commit();
          for (std::size_t i = 0; i < std::size(moments); ++i) {
            std::vector<Numbers> numbers = dropped.inputs(round);
            const int by = static_cast<int>(i + static_cast<std::size_t>(round)) % world.ranks;
            dropped.average(numbers, from_seconds(moments[i] * seconds(took)), by);
            broken_off += dropped.attempts.ended < world.ranks;
            on_some += dropped.attempts.ended > 0 && dropped.attempts.ended < world.ranks;
          }
          std::vector<Numbers> numbers = dropped.inputs(round);
          dropped.average(numbers);
          dropped.commit();
          ASSERT_EQ(numbers, expected) << "round " << round;
          for (int rank = 0; rank < world.ranks; ++rank) {
            const auto at = static_cast<std::size_t>(rank);
            const Saved one(*whole.of[at]), other(*dropped.of[at]);
            ASSERT_EQ(one.spans, other.spans) << "round " << round << " rank " << rank;
            ASSERT_EQ(one.numbers, other.numbers) << "round " << round << " rank " << rank;
          }
        }
      }
    }
    EXPECT_GE(broken_off, 40) << codec.name;
    EXPECT_GE(on_some, 1) << codec.name;
  }
}

TEST(Dropped, WhoIsLeftAloneForgetsWhatWasStaged) {
  for (const std::string_view codec : {"int8", "topk", "powersgd"}) {
    for (const std::string_view route : {"ring", "direct"}) {
      SCOPED_TRACE(text(codec, " on ", route));
      AveragerOptions options{.route = std::string(route), .seed = 5};
      options.codec = {.name = std::string(codec), .block = 64, .fraction = 0.05};
      Group group(2, options);
      std::vector<Numbers> numbers = group.inputs(0);
      group.average(numbers);
      group.commit();
      const auto before = Saved(*group.of[0]).spans;
      numbers = group.inputs(1);
      group.average(numbers);  // dropped
      VirtualCluster alone(1);
      numbers = group.inputs(1);
      for (std::size_t slot = 0; slot < 2; ++slot) {
        alone.run([&](Communicator comm) { return group.of[0]->average(comm, slot, NumberSpan(numbers[0][slot]), 1); });
        group.of[0]->commit(slot);
      }
      EXPECT_EQ(numbers[0], group.inputs(1)[0]);
      EXPECT_EQ(Saved(*group.of[0]).spans, before);
    }
  }
}

/// P = M q stays finite and M^T P overflows, on all members but rank 0 before they are added up: a member whose average
/// was broken off in between does not see the sum.
TEST(Dropped, AnErrorOfPowerSgdThatOverflowsIsNeverKept) {
  const std::vector<Slot> slots{{1000, {{{0, 1000}, 100, 10}}}};
  const auto group = [&] {
    std::vector<std::unique_ptr<Averager>> of;
    for (int rank = 0; rank < 2; ++rank) {
      AveragerOptions options{.seed = 5};
      options.codec.name = "powersgd";
      of.push_back(make_averager(options, slots, DType::fp64));
    }
    return of;
  };
  Duration took{0};
  int broken_off = 0;
  for (int moment = 0; moment <= 20; ++moment) {
    const auto of = group();
    Attempts attempts(2);
    std::vector<std::vector<double>> numbers(2, std::vector<double>(1000, 3e307));
    const auto body = [&](Communicator comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      return of[rank]->average(comm, 0, NumberSpan(numbers[rank]), weight_of(comm.rank(), 2));
    };
    if (moment == 0) {
      took = attempts.make(body);
      ASSERT_FALSE(numeric::all_finite(NumberSpan(numbers[1])));
    } else {
      attempts.make(body, from_seconds(seconds(took) * moment / 20), 1);
      broken_off += attempts.ended < 2;
    }
    for (const auto& averager : of) {
      averager->commit(0);
      const Saved saved(*averager);
      for (const auto& [name, bytes] : saved.spans) {
        for (const double x : saved.fp64(name)) ASSERT_TRUE(std::isfinite(x)) << name << " after " << moment << "/20";
      }
    }
  }
  EXPECT_GE(broken_off, 10);
}

TEST(Dropped, AStreamThatIsSentAgainGivesTheBitsOfARunWithout) {
  constexpr std::size_t n = 1003;
  for (const codec::CodecInfo& codec : codec::codecs()) {
    if (codec.kind == codec::CodecKind::low_rank) continue;
    SCOPED_TRACE(codec.name);
    const codec::CodecOptions options{.name = std::string(codec.name), .block = 64, .fraction = 0.05};
    EncodedStream whole_out(options, n, DType::fp32, 3), dropped_out(options, n, DType::fp32, 3);
    EncodedStream in(options, n, DType::fp32, 3);
    Attempts whole(2), dropped(2);
    int broken_off = 0;
    for (int round = 0; round < 4; ++round) {
      std::vector<float> sent(n), received(n);
      const auto carry = [&](Attempts& attempts, EncodedStream& out, std::optional<Duration> abort_after, int by) {
        Random random(1, static_cast<std::uint64_t>(round));
        for (float& x : sent) x = static_cast<float>(random.uniform(-1, 1));
        const auto body = [&](Communicator comm) {
          const transport::Channel channel = comm.channel(7, observe::Purpose::exchange);
          return comm.rank() == 0 ? out.send(&comm.endpoint(), 1, channel, "numbers", NumberSpan(sent))
                                  : in.receive(&comm.endpoint(), 0, channel, "numbers", NumberSpan(received));
        };
        const Duration took = attempts.make(body, abort_after, by);
        broken_off += abort_after && attempts.ended < 2;
        return took;
      };
      const Duration took = carry(whole, whole_out, {}, 0);
      whole_out.commit();
      const std::vector<float> expected = received;
      for (std::size_t i = 0; i < std::size(moments); ++i) {
        carry(dropped, dropped_out, from_seconds(moments[i] * seconds(took)), static_cast<int>(i % 2));
      }
      carry(dropped, dropped_out, {}, 0);
      dropped_out.commit();
      ASSERT_EQ(received, expected) << "round " << round;
      ASSERT_EQ(sent, received) << "round " << round;
    }
    EXPECT_GE(broken_off, 4);
  }
}

}  // namespace
}  // namespace ripieno::collective
