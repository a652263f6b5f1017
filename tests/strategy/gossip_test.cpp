#include "ripieno/strategy/gossip.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/apart_job.h"

namespace ripieno::strategy {
namespace {

using testing::ApartJob;
using testing::distance;
using testing::Reference;
using testing::resumes_bit_for_bit;
using testing::sgd;
using testing::uneven;
using testing::Vector;
using testing::worst_step_of_the_mean;

const std::array gossips{"gossip-pairs", "gossip-exponential"};

TEST(GossipPairs, AreAPerfectMatchingAndEveryPairComes) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    std::set<std::pair<int, int>> pairs;
    for (std::uint64_t step = 0; step < 400; ++step) {
      int idle = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Partners partners = random_partners(rank, ranks, 7, step);
        EXPECT_EQ(partners.to, partners.from);
        EXPECT_EQ(random_partners(partners.to, ranks, 7, step).to, rank);
        idle += partners.to == rank;
        if (partners.to != rank) pairs.insert({rank, partners.to});
      }
      EXPECT_EQ(idle, ranks % 2);
    }
    EXPECT_EQ(pairs.size(), static_cast<std::size_t>(ranks * (ranks - 1)));
  }
}

TEST(GossipExponential, SendersAndReceiversMatchAndHopsAreThePowersOfTwo) {
  EXPECT_EQ(exponential_partners(0, 1, 0, 5), (Partners{0, 0}));
  for (int ranks = 2; ranks <= 17; ++ranks) {
    std::set<int> hops;
    for (std::uint64_t step = 0; step < 20; ++step) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Partners partners = exponential_partners(rank, ranks, 0, step);
        EXPECT_NE(partners.to, rank);
        EXPECT_EQ(exponential_partners(partners.to, ranks, 0, step).from, rank);
      }
      hops.insert(exponential_partners(0, ranks, 0, step).to);
    }
    std::set<int> powers;
    for (int power = 1; power < ranks; power *= 2) powers.insert(power);
    EXPECT_EQ(hops, powers) << ranks;
  }
}

TEST(GossipExponential, LogPMeansInARowAreTheMeanOfAllWherePIsAPowerOfTwo) {
  Vector values{3, 1, 4, 1, 5, 9, 2, 6};
  for (std::uint64_t step = 0; step < 3; ++step) {
    Vector next(8);
    for (int rank = 0; rank < 8; ++rank) {
      next[rank] = (values[rank] + values[exponential_partners(rank, 8, 0, step).from]) / 2;
    }
    values = next;
  }
  EXPECT_EQ(values, Vector(8, 31.0 / 8));
}

TEST(Gossip, TakesTheStepsOfThePlainComputation) {
  for (const char* name : gossips) {
    for (int workers = 1; workers <= 5; ++workers) {
      Plan plan = sgd(2, 0.05);
      plan.seed = 3;
      ApartJob job(name, workers, plan);
      job.run();
      Reference reference(job);
      const auto partners = std::string(name) == "gossip-pairs" ? random_partners : exponential_partners;
      for (std::uint64_t step = 0; step < 2 * reference.steps_per_epoch(); ++step) {
        reference.local_step(step, true);
        const auto before = reference.w;
        for (int r = 0; r < workers; ++r) {
          const Vector& other = before[partners(r, workers, 3, step).from];
          for (std::size_t j = 0; j < other.size(); ++j) reference.w[r][j] = (before[r][j] + other[j]) / 2;
        }
      }
      for (int r = 0; r < workers; ++r) {
        EXPECT_LE(testing::distance(job.own(r), reference.w[r]), 1e-12) << name << " P=" << workers << " rank " << r;
        EXPECT_LE(testing::distance(job.weights(r), reference.mean()), 1e-12) << name << " P=" << workers;
      }
      if (workers >= 3) {
        EXPECT_GT(testing::distance(job.own(0), job.weights()), 1e-6) << name << " P=" << workers;  // they do differ
      }
    }
  }
}

TEST(Gossip, TheMeanTakesTheStepOfAllSamplesWithUnevenBatchesAndEveryWire) {
  for (const char* name : gossips) {
    for (const char* wire : {"auto", "fp32", "fp16", "bf16"}) {
      for (int workers = 1; workers <= 6; ++workers) {
        Plan plan = sgd(2, 0.05, 0);
        plan.exchange.codec.name = wire;
        ApartJob job(name, workers, plan);
        EXPECT_LE(worst_step_of_the_mean(uneven(job)), 1e-12) << name << " " << wire << " P=" << workers;
      }
    }
  }
}

TEST(Gossip, ANarrowWireLosesSomethingOnTheWay) {
  const auto weights = [](const char* wire) {
    Plan plan = sgd(1, 0.05);
    plan.exchange.codec.name = wire;
    ApartJob job("gossip-exponential", 4, plan);
    job.run();
    return job.own(0);
  };
  const double fp16 = testing::distance(weights("auto"), weights("fp16")),
               bf16 = testing::distance(weights("auto"), weights("bf16"));
  EXPECT_GT(fp16, 1e-6);
  EXPECT_LT(fp16, bf16);
  EXPECT_LT(bf16, 0.1);
}

TEST(Gossip, PartnersEndWithTheSameBitsWhereTheWireLosesNothing) {
  Plan plan = sgd(2);
  ApartJob job("gossip-pairs", 2, plan);
  std::map<std::uint64_t, std::set<std::uint64_t>> hashes;
  job.on_step = [&](int rank, const observe::StepRecord& record) {
    hashes[record.step].insert(numeric::hash(job.learners[rank]->parameters()));
  };
  job.run();
  EXPECT_EQ(hashes.size(), 14u);
  for (const auto& [step, all] : hashes) EXPECT_EQ(all.size(), 1u) << step;
}

TEST(Gossip, SendsTheBytesOfItsClosedForm) {
  for (const char* name : gossips) {
    for (const char* wire : {"auto", "fp16"}) {
      for (int workers = 1; workers <= 9; ++workers) {
        Plan plan = sgd(3);
        plan.first_epoch = 1;
        plan.exchange.codec.name = wire;
        ApartJob job(name, workers, plan);
        job.run();
        for (int rank = 0; rank < workers; ++rank) {
          EXPECT_EQ(job.sent(rank), job.closed_form(rank)) << name << " " << wire << " " << rank << "/" << workers;
        }
        if (workers == 4) {
          EXPECT_EQ(job.sent(0), 2 * 7 * 13 * (std::string(wire) == "auto" ? 8u : 2u));
        }
      }
    }
  }
}

TEST(Gossip, ResumesBitForBit) {
  for (const char* name : gossips) EXPECT_TRUE(resumes_bit_for_bit(name, 5, sgd(4, 0.05), 2)) << name;
}

TEST(Gossip, RefusesACodecThatIsNoWireFormat) {
  Plan plan = sgd(1);
  plan.exchange.codec.name = "int8";
  ApartJob job("gossip-pairs", 2, plan);
  EXPECT_THROW(job.run(), Error);
}

}  // namespace
}  // namespace ripieno::strategy
