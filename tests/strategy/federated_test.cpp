#include "ripieno/strategy/federated.h"

#include "tests/strategy/federation.h"

namespace ripieno::strategy {
namespace {

using namespace testing::federated;

TEST(FederatedAverage, IsTheMeanOfTheClientsParametersWeightedBySamples) {
  for (const bool deltas : {false, true}) {
    for (const std::uint32_t epochs : {5u, 6u}) {  // the last of three rounds is shorter, or is not
      Plan plan = plan_of(epochs, 2);
      plan.federated.deltas = deltas;
      Federation federation("fedavg", plan, uneven);
      federation.run();
      const auto models = by_hand(plan, uneven, 10, take_mean);
      ASSERT_EQ(models.size(), 4u);
      for (std::uint32_t t = 0; t < 3; ++t) {
        const std::uint32_t end = std::min(2 * t + 1, epochs - 1);
        expect_near(federation.saved[0][end].spans.at("parameters"), models[t + 1], 1e-13, text("round ", t));
      }
      for (int rank = 0; rank < 4; ++rank) expect_near(federation.model(rank), models.back(), 1e-13);
    }
  }
}

TEST(FederatedAverage, WeighsClientsBySamplesAndNotAlike) {
  const Plan plan = plan_of(1);
  const std::vector<Client> even{{20, 2}, {20, 5}, {20, 1}, {20, 3}};  // the same steps
  const Vector weighted = Federation("fedavg", plan, uneven).run().model();
  const Vector alike = Federation("fedavg", plan, even).run().model();
  EXPECT_GT(std::abs(weighted[0] - alike[0]), 1e-2);
  expect_near(alike, by_hand(plan, even, 10, take_mean).back(), 1e-13);
}

TEST(FederatedAverage, OfAFractionOfTheClients) {
  Plan plan = plan_of(12, 2);
  plan.federated.fraction = 0.5;
  plan.seed = 7;
  std::map<bool, int> with_rank_0;
  for (std::uint32_t t = 0; t < 6; ++t) ++with_rank_0[clients_of(plan, t, 4)[0] == 0];
  ASSERT_EQ(with_rank_0.size(), 2u);  // both cases are met
  Federation federation("fedavg", plan, uneven);
  expect_near(federation.run().model(), by_hand(plan, uneven, 10, take_mean).back(), 1e-13);
  for (int rank = 0; rank < 4; ++rank) {
    std::uint64_t steps = 0;
    for (std::uint32_t t = 0; t < 6; ++t) {
      const auto drawn = clients_of(plan, t, 4);
      const bool takes_part = std::count(drawn.begin(), drawn.end(), rank) > 0;
      steps += takes_part ? 2 * uneven[rank].steps : 0;
      // Its own weights are scored where it took part.
      const observe::EpochRecord& record = federation.recorders[rank]->epochs()[2 * t + 1];
      EXPECT_EQ(std::isnan(record.own_accuracy), !takes_part) << "rank " << rank << " round " << t;
    }
    EXPECT_EQ(federation.recorders[rank]->steps(), steps) << "rank " << rank;
    EXPECT_EQ(federation.recorders[rank]->epochs().size(), 12u);
  }
}

TEST(FederatedClients, AreDrawnByTheSeedAndTheRoundAlone) {
  Plan plan;
  const auto count = [&plan](double fraction, int workers) {
    plan.federated.fraction = fraction;
    return clients_of(plan, 3, workers).size();
  };
  EXPECT_EQ(count(0.3, 10), 3u);  // 0.3 * 10 is 3.0000000000000004 or so in floating point
  EXPECT_EQ(count(0.31, 10), 4u);
  EXPECT_EQ(count(1e-6, 10), 1u);
  EXPECT_EQ(count(1e-12, 10), 1u);
  EXPECT_EQ(count(1, 9), 9u);
  plan.federated.fraction = 0.4;
  std::map<int, int> drawn;
  std::map<std::vector<int>, int> sets;
  for (std::uint32_t t = 0; t < 300; ++t) {
    const auto clients = clients_of(plan, t, 5);
    ASSERT_EQ(clients.size(), 2u);
    ASSERT_TRUE(clients[0] >= 0 && clients[0] < clients[1] && clients[1] < 5);
    EXPECT_EQ(clients, clients_of(plan, t, 5));
    ++sets[clients];
    for (const int client : clients) ++drawn[client];
  }
  EXPECT_EQ(sets.size(), 10u);
  for (const auto& [client, times] : drawn) EXPECT_NEAR(times, 120, 40) << "client " << client;
  Plan other = plan;
  other.seed = 1;
  int alike = 0;
  for (std::uint32_t t = 0; t < 300; ++t) alike += clients_of(plan, t, 5) == clients_of(other, t, 5);
  EXPECT_LT(alike, 100);
}

/// Statistics after each round of one epoch, for all clients, drawn ones only where they take part.
double drifted(double statistic, int client, std::uint32_t steps) {
  for (std::uint32_t k = 0; k < steps; ++k) statistic = drift(statistic, client);
  return statistic;
}

TEST(FederatedStatistics, AreRankZerosOrTheMeanOrEachClientsOwn) {
  for (const Statistics statistics : {Statistics::rank0, Statistics::mean, Statistics::local}) {
    for (const double fraction : {0.5, 1.0}) {
      Plan plan = plan_of(6);
      plan.federated.statistics = statistics;
      plan.federated.fraction = fraction;
      plan.seed = 7;
      plan.exchange.codec.name = "fp16";  // statistics travel in full all the same
      Federation federation("fedavg", plan, uneven, 10, 3);
      federation.run();
      double model = 10;     // rank 0's at the start
      Vector own(4, model);  // each client's
      for (std::uint32_t t = 0; t < 6; ++t) {
        const auto drawn = clients_of(plan, t, 4);
        double samples = 0, mean = 0;
        for (const int i : drawn) samples += uneven[i].samples;
        for (const int i : drawn) {
          const double from = statistics == Statistics::local ? own[i] : model;
          own[i] = drifted(from, i, uneven[i].steps);
          mean += uneven[i].samples / samples * own[i];
        }
        if (statistics == Statistics::mean) {
          model = mean;
        } else if (drawn[0] == 0) {
          model = own[0];
        }
        // The evaluation's are the model's.
        const observe::EpochRecord& record = federation.recorders[0]->epochs()[t];
        EXPECT_NEAR(record.loss - record.accuracy, 1000 * model, 1e-8) << "round " << t;
        for (int rank = 0; rank < 4; ++rank) {
          const double held = statistics == Statistics::local ? own[rank] : model;
          expect_near(federation.saved[rank][t].spans.at("buffers"), Vector(3, held), 1e-11, text("rank ", rank));
        }
      }
    }
  }
}

TEST(FederatedEmptyShard, HasNoWeight) {
  const std::vector<Client> with{{10, 2}, {0, 0}, {5, 1}};
  const Plan plan = plan_of(3);
  Federation federation("fedavg", plan, with);
  expect_near(federation.run().model(), by_hand(plan, with, 10, take_mean).back(), 1e-13);
  // Where it is drawn alone, the round changes nothing.
  Plan alone = plan_of(8);
  alone.federated.fraction = 0.1;
  alone.seed = 3;
  std::map<int, int> drawn;
  for (std::uint32_t t = 0; t < 8; ++t) ++drawn[clients_of(alone, t, 3)[0]];
  ASSERT_EQ(drawn.size(), 3u);
  for (const char* name : {"fedavg", "fedavgm"}) {
    Federation one(name, alone, with);
    one.run();
    for (std::uint32_t t = 1; t < 8; ++t) {
      if (clients_of(alone, t, 3)[0] != 1) continue;
      EXPECT_EQ(one.saved[0][t].spans.at("parameters"), one.saved[0][t - 1].spans.at("parameters")) << name;
    }
  }
}

TEST(FederatedEpochs, AreEvaluatedAfterTheRoundInWhichThePlanWantsIt) {
  Plan plan = plan_of(11, 2);
  plan.evaluate_every = 5;  // after epochs 4 and 9, the fifth and tenth, and the last
  Federation federation("fedavg", plan, uneven);
  federation.run();
  for (int rank = 0; rank < 4; ++rank) {
    const auto& epochs = federation.recorders[rank]->epochs();
    ASSERT_EQ(epochs.size(), 11u);
    for (std::uint32_t e = 0; e < 11; ++e) {
      EXPECT_EQ(epochs[e].epoch, e);
      EXPECT_EQ(!std::isnan(epochs[e].accuracy), e == 5 || e == 9 || e == 10) << e;
      if (!std::isnan(epochs[e].accuracy)) {
        EXPECT_EQ(epochs[e].parameters_hash, federation.recorders[0]->epochs()[e].parameters_hash);
        EXPECT_EQ(epochs[e].accuracy, federation.recorders[0]->epochs()[e].accuracy);
        EXPECT_NE(epochs[e].own_accuracy, epochs[e].accuracy) << "rank " << rank;
      }
    }
    EXPECT_EQ(federation.saved[rank].size(), 6u);  // one a round
  }
}

TEST(FederatedMaxSteps, EndTrainingOnAllRanksInTheSameRound) {
  for (const double fraction : {1.0, 0.25}) {
    Plan plan = plan_of(20, 2);
    plan.federated.fraction = fraction;
    plan.max_steps = 28;  // client 1's third step of its sixth epoch, in the third round
    Federation federation("fedavg", plan, uneven, 10, 3);
    federation.run();
    EXPECT_EQ(federated_end(plan, federation.work.steps), 6u);
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(federation.recorders[rank]->epochs().size(), 6u);
      EXPECT_FALSE(std::isnan(federation.recorders[rank]->epochs().back().accuracy));
      EXPECT_EQ(federation.model(rank), federation.model());
      EXPECT_EQ(federation.saved[rank].size(), 2u);  // what was cut cannot be resumed
      EXPECT_EQ(federation.sent(rank), federation.closed_form(rank));
      if (fraction < 1) continue;
      EXPECT_EQ(federation.recorders[rank]->steps(), std::min(28u, 6 * uneven[rank].steps)) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace ripieno::strategy
