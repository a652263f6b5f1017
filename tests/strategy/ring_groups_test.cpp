#include "ripieno/strategy/ring_groups.h"

#include <gtest/gtest.h>

#include "tests/support/apart_job.h"

namespace ripieno::strategy {
namespace {

using testing::ApartJob;
using testing::Reference;
using testing::resumes_bit_for_bit;
using testing::sgd;
using testing::uneven;
using testing::Vector;
using testing::worst_step_of_the_mean;

Plan in_groups(int p, Plan plan = sgd(2, 0.05)) {
  plan.passes = p;
  return plan;
}

int most_others(int workers) { return std::max(1, workers - 1); }

TEST(RingGroups, TakesTheStepsOfThePlainComputation) {
  for (int workers = 1; workers <= 6; ++workers) {
    for (int p = 1; p <= most_others(workers); ++p) {
      ApartJob job("ring-groups", workers, in_groups(p));
      job.run();
      Reference reference(job);
      for (std::uint64_t step = 0; step < 2 * reference.steps_per_epoch(); ++step) {
        reference.local_step(step, true);
        for (int first = 0; first < workers; first += p + 1) {
          const int size = std::min(p + 1, workers - first);
          Vector mean(reference.w[0].size(), 0.0);
          for (int r = first; r < first + size; ++r) {
            for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += reference.w[r][j] / size;
          }
          for (int r = first; r < first + size; ++r) reference.w[r] = mean;
        }
      }
      for (int r = 0; r < workers; ++r) {
        EXPECT_LE(testing::distance(job.own(r), reference.w[r]), 1e-12)
            << "W=" << workers << " p=" << p << " rank " << r;
        EXPECT_LE(testing::distance(job.weights(r), reference.mean()), 1e-12) << "W=" << workers << " p=" << p;
        EXPECT_EQ(job.own(r), job.own(r / (p + 1) * (p + 1))) << "a group holds the same bits";
      }
      if (workers > p + 1) {
        EXPECT_GT(testing::distance(job.own(0), job.own(p + 1)), 1e-6) << "groups learn apart";
      }
    }
  }
}

TEST(RingGroups, TheMeanTakesTheStepOfAllSamplesWithUnevenBatches) {
  for (int workers = 1; workers <= 5; ++workers) {
    for (int p = 1; p <= most_others(workers); ++p) {
      for (const char* wire : {"auto", "fp16"}) {
        Plan plan = in_groups(p, sgd(2, 0.05, 0));
        plan.exchange.codec.name = wire;
        ApartJob job("ring-groups", workers, plan);
        EXPECT_LE(worst_step_of_the_mean(uneven(job)), 1e-12) << "W=" << workers << " p=" << p << " " << wire;
      }
    }
  }
}

TEST(RingGroups, SendsTheBytesOfItsClosedForm) {
  for (int workers = 1; workers <= 9; ++workers) {
    for (int p = 1; p <= most_others(workers); ++p) {
      ApartJob job("ring-groups", workers, in_groups(p));
      job.run();
      const std::uint64_t n = 2 * 7 * 13 * 8;  // 14 steps of 13 numbers
      for (int rank = 0; rank < workers; ++rank) {
        const int size = std::min(p + 1, workers - rank / (p + 1) * (p + 1));
        EXPECT_EQ(job.sent(rank), job.closed_form(rank)) << rank << "/" << workers << " p=" << p;
        EXPECT_EQ(job.sent(rank), static_cast<std::uint64_t>(size - 1) * n) << rank << "/" << workers << " p=" << p;
      }
    }
  }
}

TEST(RingGroups, ResumesBitForBit) {
  for (const int p : {1, 2}) EXPECT_TRUE(resumes_bit_for_bit("ring-groups", 5, in_groups(p, sgd(4, 0.05)), 2)) << p;
}

TEST(RingGroups, RefusesGroupsThatCannotBe) {
  for (const auto& [workers, p] : {std::pair{4, 4}, std::pair{4, 0}, std::pair{2, 2}, std::pair{1, 2}}) {
    EXPECT_THROW(ApartJob("ring-groups", workers, in_groups(p)).run(), Error) << workers << " " << p;
  }
}

}  // namespace
}  // namespace ripieno::strategy
