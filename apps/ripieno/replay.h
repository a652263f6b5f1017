// What replayed compute waits for (train.compute = "replay"): a profile of this machine, measured once and kept.
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/collective/group.h"
#include "ripieno/model/zoo.h"
#include "ripieno/strategy/compute_profile.h"

namespace ripieno {

/// The same on all ranks, which call it together: rank 0's. It computes a few passes while the others wait, unless data.cache has a profile
/// of the same model, batch, precision, threads and processor; what it measured it keeps there.
Task<ComputeProfile> common_profile(Settings settings, const Zoo* zoo, Group group);

}  // namespace ripieno
