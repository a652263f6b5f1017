#include "ripieno/strategy/ring_passes.h"

#include <gtest/gtest.h>

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

Plan passes(int p, Plan plan = sgd(2, 0.05)) {
  plan.passes = p;
  return plan;
}

TEST(RingPasses, TakesTheStepsOfThePlainComputation) {
  for (int workers = 1; workers <= 5; ++workers) {
    for (int p = 1; p <= workers; ++p) {
      ApartJob job("ring-passes", workers, passes(p));
      job.run();
      Reference reference(job);
      const int set = std::min(p + 1, workers);
      for (std::uint64_t step = 0; step < 2 * reference.steps_per_epoch(); ++step) {
        reference.local_step(step, true);
        const auto before = reference.w;
        for (int r = 0; r < workers; ++r) {
          for (std::size_t j = 0; j < before[r].size(); ++j) {
            double sum = 0;
            for (int i = 0; i < set; ++i) sum += before[(r - i + workers) % workers][j];
            reference.w[r][j] = sum / set;
          }
        }
      }
      for (int r = 0; r < workers; ++r) {
        EXPECT_LE(testing::distance(job.own(r), reference.w[r]), 1e-12)
            << "W=" << workers << " p=" << p << " rank " << r;
        EXPECT_LE(testing::distance(job.weights(r), reference.mean()), 1e-12) << "W=" << workers << " p=" << p;
      }
      if (p < workers - 1) {
        EXPECT_GT(testing::distance(job.own(0), job.own(1)), 1e-6) << "W=" << workers << " p=" << p;
      }
    }
  }
}

TEST(RingPasses, AllHoldTheSameBitsWithWMinusOneAndWPassesAndTakeTheStepsOfOneWorker) {
  ApartJob one("ring-passes", 1, passes(1));
  one.run();
  for (int workers = 2; workers <= 6; ++workers) {
    for (const int p : {workers - 1, workers}) {
      for (const char* wire : {"auto", "fp16"}) {
        Plan plan = passes(p);
        plan.exchange.codec.name = wire;
        ApartJob job("ring-passes", workers, plan);
        uneven(job).run();
        const bool exact = std::string(wire) == "auto";
        for (int rank = 0; rank < workers; ++rank) {
          EXPECT_LE(testing::distance(job.own(rank), one.own(0)), exact ? 1e-12 : 0.05)
              << workers << " " << p << " " << wire;
          if (!exact && p < workers) continue;  // they differ by what the wire lost
          EXPECT_EQ(job.own(rank), job.own(0)) << workers << " " << p << " " << wire;
        }
      }
    }
  }
}

TEST(RingPasses, TheMeanTakesTheStepOfAllSamplesWithUnevenBatches) {
  for (int workers = 1; workers <= 5; ++workers) {
    for (int p = 1; p <= workers; ++p) {
      for (const char* wire : {"auto", "fp16"}) {
        if (p == workers && std::string(wire) == "fp16") continue;  // rounds the mean itself
        Plan plan = passes(p, sgd(2, 0.05, 0));
        plan.exchange.codec.name = wire;
        ApartJob job("ring-passes", workers, plan);
        EXPECT_LE(worst_step_of_the_mean(uneven(job)), 1e-12) << "W=" << workers << " p=" << p << " " << wire;
      }
    }
  }
}

TEST(RingPasses, SendsTheBytesOfItsClosedForm) {
  for (int workers = 1; workers <= 9; ++workers) {
    for (int p = 1; p <= workers; ++p) {
      for (const char* wire : {"auto", "fp16"}) {
        Plan plan = passes(p);
        plan.exchange.codec.name = wire;
        ApartJob job("ring-passes", workers, plan);
        job.run();
        for (int rank = 0; rank < workers; ++rank) {
          EXPECT_EQ(job.sent(rank), job.closed_form(rank)) << rank << "/" << workers << " p=" << p << " " << wire;
        }
        const std::uint64_t n = 2 * 7 * 13 * (std::string(wire) == "auto" ? 8 : 2);  // 14 steps of 13 numbers
        if (p < workers) {
          EXPECT_EQ(job.sent(0), static_cast<unsigned>(p) * n);
        } else if (workers > 2) {
          EXPECT_EQ(job.sent(0), n);
          EXPECT_EQ(job.sent(1), 2 * n);
        }
      }
    }
  }
}

TEST(RingPasses, ResumesBitForBit) {
  for (const int p : {1, 2, 3, 4}) EXPECT_TRUE(resumes_bit_for_bit("ring-passes", 4, passes(p, sgd(4, 0.05)), 2)) << p;
}

TEST(RingPasses, RefusesMorePassesThanWorkersAndCodecsThatAreNoWireFormat) {
  const auto refusal = [](int workers, const Plan& plan) -> std::string {
    const Layout layout{.tensors = {{"", {4}, {0, 4}}}, .parameters = 4};
    const StrategyInfo& info = find_strategy("ring-passes");
    try {
      ring_passes_bytes_sent(info, plan, layout, {workers, std::vector<std::uint32_t>(workers, 5)}, 0);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::usage ? error.what() : "";
    }
    return "";
  };
  EXPECT_NE(refusal(3, passes(4)).find("passes = 4 with 3 workers"), std::string::npos);
  EXPECT_NE(refusal(3, passes(0)).find("passes = 0"), std::string::npos);
  EXPECT_EQ(refusal(3, passes(3)), "");
  Plan plan = passes(2);
  plan.exchange.codec.name = "int8";
  EXPECT_NE(refusal(3, plan).find("int8"), std::string::npos);
}

}  // namespace
}  // namespace ripieno::strategy
