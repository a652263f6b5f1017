// What replayed compute waits for (train.compute = "replay"): a profile of this machine, measured once and kept.
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/collective/group.h"
#include "ripieno/model/zoo.h"
#include "ripieno/strategy/compute_profile.h"

namespace ripieno {

/// A few passes computed now, unless data.cache has a profile of the same model, images a pass, precision, threads and processor; what was
/// measured is kept there.
ComputeProfile profile_here(const Settings& settings, const Zoo& zoo);

/// The same on all ranks, which call it together: rank 0's, which it makes as above while the others wait.
Task<ComputeProfile> common_profile(Settings settings, const Zoo* zoo, Group group);

}  // namespace ripieno
