// Makes one run's summary of its ranks' own.
#pragma once

#include <vector>

#include "ripieno/report/summary.h"

namespace ripieno::report {

/// `ranks` holds one summary a rank, each with that rank alone in ranks[]; the order does not matter. Bytes add up,
/// times are the slowest rank's (stages: the mean), what the run is comes from rank 0, and its test from the lowest
/// rank that has one. Throws Error(internal) on an empty list.
Summary merge_ranks(std::vector<Summary> ranks);

}  // namespace ripieno::report
