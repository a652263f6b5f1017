#include "tests/strategy/federation.h"

namespace ripieno::strategy {
namespace {

using namespace testing::federated;

TEST(FederatedBytes, AreThoseOfTheClosedForm) {
  std::uint64_t cases = 0;
  for (int workers = 1; workers <= 9; ++workers) {
    std::vector<Client> clients;
    for (int i = 0; i < workers; ++i) clients.push_back({10u + static_cast<std::uint32_t>(i), 1});
    for (const double fraction : {0.3, 0.5, 1.0}) {
      for (const char* codec : {"auto", "fp16", "int8", "topk", "qsgd", "sign", "topk-sampled"}) {
        for (const bool deltas : {false, true}) {
          for (const Statistics statistics : {Statistics::rank0, Statistics::mean, Statistics::local}) {
            Plan plan = plan_of(5, 2);
            plan.exchange.codec.name = codec;
            plan.federated = {2, fraction, deltas, statistics};
            Federation federation("fedavg", plan, clients, 300, 3);
            federation.run();
            for (int rank = 0; rank < workers; ++rank) {
              const auto expected = federation.closed_form(rank);
              if (rank > 0 && codec == std::string_view("topk-sampled")) {
                EXPECT_EQ(expected, std::nullopt);
              } else {
                EXPECT_EQ(federation.sent(rank), expected) << workers << " workers, " << codec << ", rank " << rank;
                ++cases;
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(cases, 5000u);
}

TEST(FederatedBytes, InNumbers) {
  Plan plan = plan_of(6, 2);  // three rounds
  plan.exchange.codec.name = "int8";
  Federation federation("fedavg", plan, uneven, 300, 3);
  federation.run();
  EXPECT_EQ(federation.sent(0), 3u * 3 * (300 * 8 + 3 * 8));  // in full, to three clients
  EXPECT_EQ(federation.sent(1), 3u * (300 + 2 * 4 + 3 * 8));  // two blocks with a scale each
  EXPECT_DOUBLE_EQ(federated_rounds(plan, 5), 0.5);
}

/// Two clients with as many samples, 10 weights: what one of the second's weights a round, the largest, adds.
TEST(FederatedErrorFeedback, KeepsWhatADifferenceLostForTheNextRound) {
  const std::vector<Client> two{{10, 2}, {10, 2}};
  Plan plan = plan_of(6, 1, 0);
  plan.exchange.codec.name = "topk";
  plan.exchange.codec.fraction = 0.1;
  plan.federated.deltas = true;
  for (const bool feedback : {true, false}) {
    plan.exchange.codec.error_feedback = feedback;
    Federation federation("fedavg", plan, two);
    federation.run();
    Vector w = first_model(10), residual(10, 0.0);
    LocalSgd local[2];
    for (std::uint32_t t = 0; t < 6; ++t) {
      const Vector mine = local[0].train(w, 0, two[0], t, t + 1, 0), theirs = local[1].train(w, 1, two[1], t, t + 1, 0);
      std::size_t top = 0;
      for (std::size_t j = 0; j < 10; ++j) {
        residual[j] = theirs[j] - w[j] + (feedback ? residual[j] : 0);
        if (std::abs(residual[j]) > std::abs(residual[top])) top = j;
      }
      const double sent = static_cast<float>(residual[top]);
      for (std::size_t j = 0; j < 10; ++j) w[j] += (mine[j] - w[j]) / 2 + (j == top ? sent / 2 : 0);
      residual[top] -= sent;
    }
    expect_near(federation.model(), w, 1e-12, feedback ? "with" : "without");
    EXPECT_EQ(federation.saved[1][5].spans.contains("federated.upload.residual"), feedback);
    if (feedback) expect_near(federation.saved[1][5].spans.at("federated.upload.residual"), residual, 1e-12);
    EXPECT_FALSE(federation.saved[0][5].spans.contains("federated.upload.residual"));
  }
}

TEST(FederatedErrorFeedback, IsNotForParameters) {
  Plan plan = plan_of(4);
  plan.exchange.codec.name = "int8";
  ASSERT_TRUE(plan.exchange.codec.error_feedback);
  Federation federation("fedavg", plan, uneven);
  federation.run();
  EXPECT_FALSE(federation.saved[1][3].spans.contains("federated.upload.residual"));
  plan.exchange.codec.error_feedback = false;
  EXPECT_EQ(Federation("fedavg", plan, uneven).run().model(), federation.model());
  expect_near(federation.model(), by_hand(plan, uneven, 10, take_mean).back(), 0.05);  // as if nothing were lost
}

TEST(FederatedCodecs, LosslessAndNarrowOnesComeNearTheMean) {
  for (const auto& [codec, tolerance] : {std::pair("fp32", 1e-6), {"fp16", 2e-3}, {"bf16", 2e-2}, {"qsgd", 0.2}}) {
    Plan plan = plan_of(4);
    plan.exchange.codec.name = codec;
    plan.exchange.codec.bits = 8;
    plan.federated.deltas = true;
    Federation federation("fedavg", plan, uneven);
    const Vector exact = by_hand(plan, uneven, 10, take_mean).back();
    expect_near(federation.run().model(), exact, tolerance, codec);
    EXPECT_NE(federation.model(), exact) << codec;
    for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(federation.model(rank), federation.model()) << codec;
  }
  Plan plan = plan_of(1);
  plan.exchange.codec.name = "powersgd";
  EXPECT_THROW(Federation("fedavg", plan, uneven), Error);
}

struct Way {
  const char *name, *codec;
  bool deltas;
  double fraction;
  Statistics statistics;
};
constexpr Way ways[] = {
    {"fedavg", "auto", false, 1, Statistics::mean},    {"fedavg", "fp16", false, 0.5, Statistics::rank0},
    {"fedavgm", "topk", true, 0.5, Statistics::local}, {"fedadam", "qsgd", true, 0.75, Statistics::mean},
    {"fedavgm", "qsgd", false, 1, Statistics::local},
};
Plan plan_for(const Way& way, std::uint32_t epochs) {
  Plan plan = plan_of(epochs, 2);
  plan.exchange.codec.name = way.codec;
  plan.exchange.codec.fraction = 0.2;
  plan.federated = {2, way.fraction, way.deltas, way.statistics};
  plan.evaluate_every = 4;
  plan.seed = 5;
  return plan;
}

TEST(FederatedResume, RepeatsBitForBit) {
  for (const Way& way : ways) {
    Plan plan = plan_for(way, 11);
    Federation whole(way.name, plan, uneven, 10, 2);
    whole.run();
    for (const std::uint32_t after : {3u, 5u}) {  // rounds with and without an evaluation
      plan.first_epoch = after + 1;
      Federation rest(way.name, plan, uneven, 10, 2);
      for (int rank = 0; rank < 4; ++rank) {
        State state = whole.saved[rank].at(after);
        state.loading = true;
        state.walk(*rest.learners[rank], *rest.strategies[rank]);
      }
      rest.run();
      EXPECT_EQ(rest.model(), whole.model()) << way.name << " " << way.codec << " after epoch " << after;
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(rest.buffers(rank), whole.buffers(rank)) << way.name << " rank " << rank;
        EXPECT_EQ(rest.saved[rank].at(10).spans, whole.saved[rank].at(10).spans) << way.name << " rank " << rank;
        EXPECT_EQ(rest.saved[rank].at(10).numbers, whole.saved[rank].at(10).numbers) << way.name << " rank " << rank;
        // The closed form is of what is left.
        EXPECT_EQ(rest.sent(rank), rest.closed_form(rank));
      }
    }
  }
}

TEST(FederatedRuns, RepeatBitForBitAndFollowTheSeed) {
  for (const Way& way : ways) {
    Plan plan = plan_for(way, 7);
    const Vector first = Federation(way.name, plan, uneven, 10, 2).run().model();
    EXPECT_EQ(Federation(way.name, plan, uneven, 10, 2).run().model(), first) << way.name;
    plan.seed = 6;
    const bool draws = way.fraction < 1 || way.codec == std::string_view("qsgd");
    EXPECT_EQ(Federation(way.name, plan, uneven, 10, 2).run().model() == first, !draws) << way.name;
  }
}

}  // namespace
}  // namespace ripieno::strategy
