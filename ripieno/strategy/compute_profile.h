// How long a pass takes on this machine, measured once. A learner can wait for these times instead of computing, so
// that more workers than cores behave as if each had a machine of its own.
#pragma once

#include <vector>

#include "ripieno/observe/recorder.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::strategy {

struct ComputeProfile {
  std::uint32_t images = 0;  ///< of the measured pass; the times of other passes are scaled in proportion
  Duration read{0}, forward{0}, backward{0};
  std::vector<Duration> ready;  ///< for each bucket: from the start of backward until its gradient was ready

  /// The profile of a pass over so many images.
  ComputeProfile of(std::uint32_t images_now) const;
};

/// The profile of a pass that takes `cost`, with at least 1 bucket: a third of the cost is forward (a multiple of the
/// number of buckets), the rest backward, spread evenly over the buckets.
ComputeProfile stated_profile(Duration cost, std::size_t buckets);

/// Medians over `steps` passes (at least 1) of the first epoch's first batches, after `warmup` passes that do not
/// count. `recorder` is the learner's own; nobody else may use it meanwhile. Throws Error(usage) if this worker has no
/// batch in an epoch.
Task<ComputeProfile> measure_profile(Learner* learner, observe::Recorder* recorder, Runtime* runtime, int warmup,
                                     int steps);

/// The profile of a machine that takes `factor` times as long.
ComputeProfile slowed(ComputeProfile profile, double factor);

/// To numbers and back, for sending or saving.
std::vector<double> numbers_of(const ComputeProfile& profile);
ComputeProfile profile_of(const std::vector<double>& numbers);

}  // namespace ripieno::strategy
