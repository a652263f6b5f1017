// What a pass takes on this machine, measured once: times that a learner can wait for in place of computing, so that
// more workers than cores behave as on machines of their own.
#pragma once

#include <vector>

#include "ripieno/observe/recorder.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::strategy {

struct ComputeProfile {
  std::uint32_t images = 0;  ///< of a pass that was measured; times of others are taken to be in proportion
  Duration read{0}, forward{0}, backward{0};
  std::vector<Duration> ready;  ///< for each bucket: from the beginning of backward until its gradient was there

  /// For a pass of so many images.
  ComputeProfile of(std::uint32_t images_now) const;
};

/// Of a pass that takes `cost`, at least 1 bucket: a third of it forward, the same part for each bucket, and each with
/// its own part of backward.
ComputeProfile stated_profile(Duration cost, std::size_t buckets);

/// Medians over `steps` passes (at least 1) of the first epoch's first batches, after `warmup` others. `recorder`: the
/// learner's own, which nobody else uses meanwhile. Throws Error(usage) where an epoch has no batch of this worker's.
Task<ComputeProfile> measure_profile(Learner* learner, observe::Recorder* recorder, Runtime* runtime, int warmup,
                                     int steps);

/// As a machine that takes `factor` times as long would have it.
ComputeProfile slowed(ComputeProfile profile, double factor);

/// As numbers, and back: to be sent or kept.
std::vector<double> numbers_of(const ComputeProfile& profile);
ComputeProfile profile_of(const std::vector<double>& numbers);

}  // namespace ripieno::strategy
