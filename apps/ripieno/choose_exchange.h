// What exchange.measure = true does at a run's start: measures the links and chooses (collective/tune.h).
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/collective/group.h"
#include "ripieno/model/zoo.h"

namespace ripieno {

/// Every rank calls it, and all choose the same. Replaces exchange.bucket_mb and, where the codec and the strategy leave them
/// open, route, segment_kb, small_route and small_kb; exchange.measure becomes false, so that a run with these settings repeats the
/// choice and does not measure. Returns what was found and chosen, in one line.
Task<std::string> choose_exchange(Settings* settings, const Zoo* zoo, Group group);

}  // namespace ripieno
