// What replayed compute waits for (train.compute = "replay"): a profile of this machine, measured once and kept.
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/model/zoo.h"
#include "ripieno/strategy/compute_profile.h"

namespace ripieno::program {

/// All that a worker's pass depends on beside the machine, in words: jobs of which it is the same have the same times.
std::string pass_of(const Settings& settings);

/// A few passes computed now, unless data.cache has a profile of the same pass, in the same buckets, on the same
/// processor; what was measured is kept there.
strategy::ComputeProfile profile_here(const Settings& settings, const model::Zoo& zoo);

/// The same on all ranks, which call it together: rank 0's, which it makes as above while the others wait.
Task<strategy::ComputeProfile> common_profile(Settings settings, const model::Zoo* zoo, collective::Communicator comm);

}  // namespace ripieno::program
