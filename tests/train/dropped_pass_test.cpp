// Passes of a TorchLearner that are dropped and taken again: dropout, batch norm, counters, augmentation, a loss scale,
// batches in parts; on a thread with the batches read ahead, and in virtual time.
#include <gtest/gtest.h>

#include "tests/train/random_net.h"

namespace ripieno::train {
namespace {

using testing::PassJob;

struct Case {
  const char* precision;
  std::uint32_t accumulate;
};

constexpr Case cases[] = {{"fp32", 1}, {"fp32", 3}, {"fp16", 1}, {"fp16", 3}, {"fp64", 2}};

TEST(DroppedPass, LeavesNothingBehindInBothTimes) {
  for (const auto make : {real_runtime, virtual_runtime}) {
    for (const auto [precision, accumulate] : cases) {
      const auto runtime = make(0);
      SCOPED_TRACE(
          text(runtime->is_virtual() ? "virtual" : "real", " time, precision ", precision, ", parts ", accumulate));
      const Precision found = find_precision(precision);
      PassJob plain(*runtime, found, accumulate), dropping(*runtime, found, accumulate);
      testing::expect_drops_leave_nothing(*runtime, *plain.learner, plain.counters(), *dropping.learner,
                                          dropping.counters());
    }
  }
}

TEST(DroppedPass, DependsOnItsBatchAloneInBothTimes) {
  for (const auto make : {real_runtime, virtual_runtime}) {
    const auto runtime = make(0);
    PassJob job(*runtime, Precision::fp32, 2);
    testing::expect_batches_in_any_order(*runtime, *job.learner, job.counters());
  }
}

}  // namespace
}  // namespace ripieno::train
