// The profile of this machine for replayed compute (train.compute = "replay"), measured once and kept.
#pragma once

#include "apps/ripieno/kept_numbers.h"
#include "apps/ripieno/settings.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/model/zoo.h"
#include "ripieno/strategy/compute_profile.h"

namespace ripieno::program {

/// In words, everything besides the machine that a worker's pass depends on: jobs with the same text have the same
/// times.
std::string pass_of(const Settings& settings);

struct KeptProfile {
  strategy::ComputeProfile profile;
  Circumstances when;
};

/// Measures passes for at least a fifth of a second and keeps the profile in data.cache, unless it has one of the same
/// pass, in the same buckets, on the same processor, which is believed (Circumstances::doubt). Of two that are not, the
/// faster stays.
KeptProfile profile_here(const Settings& settings, const model::Zoo& zoo);

/// Rank 0's profile, on all ranks, which call it together. Rank 0 makes it as above while the others wait, and alone
/// has the circumstances.
Task<KeptProfile> common_profile(Settings settings, const model::Zoo* zoo, collective::Communicator comm);

/// For a replay: "" or a line that says why its times are not believed.
std::string doubt_of(const KeptProfile& kept);

}  // namespace ripieno::program
