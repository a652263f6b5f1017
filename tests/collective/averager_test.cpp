#include "ripieno/collective/averager.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ripieno/collective/slot_memory.h"
#include "ripieno/numeric/elementwise.h"
#include "tests/collective/averagers.h"
#include "tests/collective/worlds.h"

namespace ripieno::collective {
namespace {

using testing::Averagers;
using testing::Numbers;
using testing::Saved;
using testing::weight_of;
using testing::worlds;

/// A large slot with two matrices, one of less than a block, an empty one, and one of a few blocks.
std::vector<Slot> slots() {
  return {{1003, {{{3, 603}, 20, 30}, {{700, 820}, 12, 10}}}, {7}, {0}, {200, {{{0, 200}, 10, 20}}}};
}

AveragerOptions options_of(const codec::CodecInfo& codec, const Route& route) {
  AveragerOptions options;
  options.route = route.name;
  options.codec = {.name = std::string(codec.name), .block = 64, .fraction = 0.05};
  options.seed = 5;
  return options;
}

/// Every codec with every route that carries it.
void for_each_pair(const std::function<void(const codec::CodecInfo&, const Route&)>& body) {
  for (const codec::CodecInfo& codec : codec::codecs()) {
    for (const Route& route : routes()) {
      if (averages_over(codec.name, route.name)) body(codec, route);
    }
  }
}

bool feeds_back(const codec::CodecInfo& codec) { return codec.kind != codec::CodecKind::wire; }

TEST(Averager, AllRanksHoldTheSameBitsAndBookTheClosedForm) {
  for_each_pair([](const codec::CodecInfo& codec, const Route& route) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const World world : worlds(route, ranks)) {
        SCOPED_TRACE(text(codec.name, " on ", route.name, " P=", ranks, " M=", world.per_node));
        Averagers averagers(world, slots(), options_of(codec, route));
        for (int round = 0; round < 2; ++round) {
          std::vector<Numbers> numbers = averagers.inputs(round);
          averagers.average(numbers);
          for (int rank = 1; rank < ranks; ++rank) {
            for (std::size_t slot = 0; slot < slots().size(); ++slot) {
              ASSERT_EQ(numeric::hash(NumberSpan(numbers[rank][slot])), numeric::hash(NumberSpan(numbers[0][slot])))
                  << "rank " << rank;
            }
          }
        }
        for (int rank = 0; rank < ranks; ++rank) {
          const std::uint64_t sent = averagers.cluster.ledger(rank).total().payload_sent;
          std::uint64_t expected = 0, least = 0, most = 0;
          bool known = true;
          for (std::size_t slot = 0; slot < slots().size(); ++slot) {
            const auto bytes = averagers.of[rank]->bytes_sent(rank, world, slot);
            known = known && bytes.has_value();
            expected += 2 * bytes.value_or(0);
            const std::size_t n = slots()[slot].elements;  // topk-sampled: a size, and 1 .. 2 k pairs unless n = 0
            const std::uint64_t k = static_cast<std::uint64_t>(std::ceil(0.05 * static_cast<double>(n)));
            least += 2 * (ranks - 1) * (8 + (n ? 8 : 0));
            most += 2 * (ranks - 1) * (8 + 16 * k);
          }
          EXPECT_EQ(known, codec.name != "topk-sampled" || ranks == 1);
          if (known) {
            EXPECT_EQ(sent, expected) << "rank " << rank;
          } else {
            EXPECT_TRUE(sent >= least && sent <= most && sent % 8 == 0) << sent << ", not " << least << " .. " << most;
          }
          EXPECT_EQ(sent == 0, ranks == 1);
          EXPECT_EQ(averagers.cluster.ledger(rank).total(),
                    averagers.cluster.ledger(rank).total(observe::Purpose::exchange));
        }
      }
    }
  });
}

TEST(Averager, TellsOfEveryPartOnceWhenItHasItsLastBits) {
  for_each_pair([](const codec::CodecInfo& codec, const Route& route) {
    SCOPED_TRACE(text(codec.name, " on ", route.name));
    const int ranks = 4;
    AveragerOptions options = options_of(codec, route);
    options.segment_bytes = 1024;
    const World world = worlds(route, ranks).front();
    Averagers whole(world, slots(), options), by_parts(world, slots(), options);
    std::vector<Numbers> expected = whole.inputs(0), numbers = expected;
    whole.average(expected);
    std::vector<int> parts(ranks);
    by_parts.cluster.run([&](Communicator comm) {
      const int rank = comm.rank();
      std::vector<double>& own = numbers[rank][0];
      const auto averaged = [&, rank](Range part) {
        ++parts[rank];
        for (std::size_t i = part.begin; i < part.end; ++i) {
          EXPECT_EQ(std::bit_cast<std::uint64_t>(own[i]), std::bit_cast<std::uint64_t>(expected[rank][0][i]))
              << "element " << i;
          own[i] = NAN;  // nobody looks at it any more
        }
      };
      return by_parts.of[rank]->average_by_parts(comm.on_nodes(world.per_node), 0, NumberSpan(own),
                                                 weight_of(rank, ranks), averaged);
    });
    for (int rank = 0; rank < ranks; ++rank) {
      for (const double one : numbers[rank][0]) EXPECT_TRUE(std::isnan(one)) << "rank " << rank;
      EXPECT_EQ(parts[rank], codec.kind == codec::CodecKind::wire ? 8 : 1) << "rank " << rank;
    }
  });
}

TEST(Averager, LosesNothingOverTwentyRounds) {
  for_each_pair([](const codec::CodecInfo& codec, const Route& route) {
    if (!feeds_back(codec)) return;
    for (const int ranks : {2, 3, 5, 8}) {
      for (const World world : worlds(route, ranks)) {
        SCOPED_TRACE(text(codec.name, " on ", route.name, " P=", ranks, " M=", world.per_node));
        Averagers averagers(world, slots(), options_of(codec, route));
        Numbers truth = averagers.zeros(), outputs = averagers.zeros();
        for (int round = 0; round < 20; ++round) {
          std::vector<Numbers> numbers = averagers.inputs(round);
          averagers.add_truth(numbers, truth);
          averagers.average(numbers);
          for (std::size_t slot = 0; slot < slots().size(); ++slot) {
            for (std::size_t i = 0; i < outputs[slot].size(); ++i) outputs[slot][i] += numbers[0][slot][i];
          }
        }
        double kept = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const Saved saved(*averagers.of[rank]);
          for (std::size_t slot = 0; slot < slots().size(); ++slot) {
            const std::string name = text("averager.slot", slot, ".residual");
            if (!saved.spans.contains(name)) continue;  // PowerSGD: a slot without matrices loses nothing
            const std::vector<double> residual = saved.fp64(name);
            for (std::size_t i = 0; i < residual.size(); ++i) {
              outputs[slot][i] += residual[i];
              kept += std::abs(residual[i]);
            }
          }
        }
        EXPECT_GT(kept, 0.01);
        for (std::size_t slot = 0; slot < slots().size(); ++slot) {
          for (std::size_t i = 0; i < outputs[slot].size(); ++i) {
            ASSERT_NEAR(outputs[slot][i], truth[slot][i], 1e-11) << "slot " << slot << " element " << i;
          }
        }
      }
    }
  });
}

/// Numbers of at most 1 are encoded P times at most on their way, each time to half a step of 1/127.
TEST(Averager, StaysWithinTheCodecsError) {
  for (const auto& [name, unit] : std::map<std::string, double>{
           {"auto", 1e-15}, {"fp32", 6e-8}, {"fp16", 1.0 / 2048}, {"bf16", 1.0 / 256}, {"int8", 0.51 / 127}}) {
    for (const Route& route : routes()) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        AveragerOptions options = options_of(codec::find_codec(name), route);
        options.codec.error_feedback = false;
        Averagers averagers(ranks, slots(), options);
        std::vector<Numbers> numbers = averagers.inputs(0);
        Numbers truth = averagers.zeros();
        averagers.add_truth(numbers, truth);
        averagers.average(numbers);
        for (std::size_t slot = 0; slot < slots().size(); ++slot) {
          for (std::size_t i = 0; i < truth[slot].size(); ++i) {
            ASSERT_NEAR(numbers[0][slot][i], truth[slot][i], unit * ranks)
                << name << " on " << route.name << " P=" << ranks;
          }
        }
      }
    }
  }
}

TEST(Averager, OneRankOnlyScales) {
  for_each_pair([](const codec::CodecInfo& codec, const Route& route) {
    SCOPED_TRACE(text(codec.name, " on ", route.name));
    VirtualCluster cluster(1);
    const auto averager = make_averager(options_of(codec, route), slots(), DType::fp64);
    const std::vector<double> before = testing::random_numbers(slots(), 0, 0)[0];
    std::vector<double> numbers = before, quarter = before;
    for (double& x : quarter) x /= 4;
    {
      const Task<> never_awaited = averager->average(cluster.comm(0), 0, NumberSpan(numbers), 0.25);
      EXPECT_EQ(numbers, before) << "an average begins when it is awaited";
    }
    cluster.run([&](Communicator comm) { return averager->average(comm, 0, NumberSpan(numbers), 0.25); });
    EXPECT_EQ(numbers, quarter);
    EXPECT_EQ(cluster.ledger(0).total(), observe::Traffic());
    for (const auto& [name, bytes] : Saved(*averager).spans) {
      if (!name.ends_with(".residual")) continue;
      EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size())) << name;
    }
  });
}

TEST(Averager, WhatOverflowsIsSeenByAllAndSpoilsNothing) {
  for_each_pair([](const codec::CodecInfo& codec, const Route& route) {
    for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      for (const int ranks : {2, 5}) {
        SCOPED_TRACE(text(codec.name, " on ", route.name, " P=", ranks));
        Averagers averagers(ranks, slots(), options_of(codec, route));
        for (int round = 0; round < 4; ++round) {
          std::vector<Numbers> numbers = averagers.inputs(round);
          if (round == 1) numbers[1][0][100] = numbers[1][1][3] = bad;
          averagers.average(numbers);
          for (int rank = 0; rank < ranks; ++rank) {
            if (round == 1) {
              EXPECT_FALSE(std::isfinite(numbers[rank][0][100])) << "rank " << rank;
              EXPECT_FALSE(std::isfinite(numbers[rank][1][3])) << "rank " << rank;
            }
            for (std::size_t slot = 0; slot < slots().size(); ++slot) {
              ASSERT_EQ(numeric::hash(NumberSpan(numbers[rank][slot])), numeric::hash(NumberSpan(numbers[0][slot])))
                  << "rank " << rank;
              for (const double x : numbers[rank][slot]) {
                ASSERT_TRUE(round == 1 || std::isfinite(x)) << "round " << round;
              }
            }
            const Saved saved(*averagers.of[rank]);
            for (const auto& [name, bytes] : saved.spans) {
              for (const double x : saved.fp64(name)) ASSERT_TRUE(std::isfinite(x)) << name;
            }
          }
        }
      }
    }
  });
}

TEST(Averager, ARestoredOneGoesOnBitForBit) {
  for_each_pair([](const codec::CodecInfo& codec, const Route& route) {
    SCOPED_TRACE(text(codec.name, " on ", route.name));
    const int ranks = 3;
    Averagers first(ranks, slots(), options_of(codec, route)), second(ranks, slots(), options_of(codec, route));
    for (int round = 0; round < 3; ++round) {
      std::vector<Numbers> numbers = first.inputs(round);
      first.average(numbers);
    }
    for (int rank = 0; rank < ranks; ++rank) Saved(*first.of[rank]).restore(*second.of[rank]);
    for (int round = 3; round < 5; ++round) {
      std::vector<Numbers> one = first.inputs(round), other = one;
      first.average(one);
      second.average(other);
      EXPECT_EQ(one, other) << "round " << round;
    }
  });
}

TEST(Averager, NumbersWithoutDataMoveTheSameBytes) {
  for_each_pair([](const codec::CodecInfo& codec, const Route& route) {
    SCOPED_TRACE(text(codec.name, " on ", route.name));
    Averagers real(5, slots(), options_of(codec, route)), simulated(5, slots(), options_of(codec, route));
    if (codec.name == "topk-sampled") {
      EXPECT_THROW(simulated.simulate(), Error);
      return;
    }
    std::vector<Numbers> numbers = real.inputs(0);
    real.average(numbers);
    simulated.simulate();
    for (int rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(simulated.cluster.ledger(rank).total(), real.cluster.ledger(rank).total()) << "rank " << rank;
    }
  });
}

TEST(Averager, RefusesWhatARouteCannotCarry) {
  const auto message = [](const AveragerOptions& options) -> std::string {
    try {
      make_averager(options, slots(), DType::fp32);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "";
  };
  const auto has = [](const std::string& all, const char* part) { return all.find(part) != std::string::npos; };
  for (const codec::CodecInfo& codec : codec::codecs()) {
    for (const Route& route : routes()) {
      const bool refused = codec.kind == codec::CodecKind::gathered && route.name != "ring" && route.name != "direct";
      EXPECT_EQ(averages_over(codec.name, route.name), !refused);
      const std::string why = message(options_of(codec, route));
      EXPECT_EQ(why.empty(), !refused) << codec.name << " on " << route.name << ": " << why;
    }
  }
  const std::string why = message(options_of(codec::find_codec("topk"), find_route("reduce-broadcast")));
  for (const char* part : {"topk", "reduce-broadcast", "ring", "direct"}) EXPECT_TRUE(has(why, part)) << why;

  AveragerOptions options;
  options.codec.name = "zip";
  EXPECT_TRUE(has(message(options), "zip"));
  options.codec = {.name = "qsgd", .bits = 9};
  EXPECT_TRUE(has(message(options), "9"));
  options.route = "train";
  EXPECT_TRUE(has(message(options), "train"));
}

TEST(Averager, AllRanksHoldTheSameBitsInSinglePrecision) {
  for_each_pair([](const codec::CodecInfo& codec, const Route& route) {
    SCOPED_TRACE(text(codec.name, " on ", route.name));
    const int ranks = 5;
    const Slot slot = slots()[0];
    VirtualCluster cluster(ranks);
    std::vector<std::unique_ptr<Averager>> averagers;
    std::vector<std::vector<float>> numbers(ranks);
    std::vector<double> truth(slot.elements);
    for (int rank = 0; rank < ranks; ++rank) {
      averagers.push_back(make_averager(options_of(codec, route), {slot}, DType::fp32));
      const std::vector<double> exact = testing::random_numbers({slot}, rank, 0)[0];
      numbers[rank].assign(exact.begin(), exact.end());
      for (std::size_t i = 0; i < exact.size(); ++i) truth[i] += weight_of(rank, ranks) * exact[i];
    }
    cluster.run([&](Communicator comm) {
      const int rank = comm.rank();
      return averagers[rank]->average(comm, 0, NumberSpan(numbers[rank]), weight_of(rank, ranks));
    });
    double along = 0;  // the output points where the true average does
    for (std::size_t i = 0; i < truth.size(); ++i) along += truth[i] * numbers[0][i];
    EXPECT_GT(along, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(numbers[rank], numbers[0]) << "rank " << rank;
      EXPECT_EQ(cluster.ledger(rank).total().payload_sent,
                averagers[rank]->bytes_sent(rank, ranks, 0).value_or(cluster.ledger(rank).total().payload_sent));
    }
  });
}

TEST(RoundingDraws, DifferByRankChannelAndCall) {
  std::map<std::uint64_t, std::string> seen;
  for (int rank = 0; rank < 8; ++rank) {
    for (std::uint32_t channel = 0; channel < 8; ++channel) {
      for (int call = 0; call < 8; ++call) {
        const std::uint64_t first = rounding_draws(1, rank, channel, call).next();
        EXPECT_TRUE(seen.emplace(first, text(rank, channel, call)).second) << seen[first];
        EXPECT_EQ(first, rounding_draws(1, rank, channel, call).next());
      }
    }
  }
}

}  // namespace
}  // namespace ripieno::collective
