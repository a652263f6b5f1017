// Merges the ranks' summaries into a run's summary.
#pragma once

#include <vector>

#include "ripieno/report/summary.h"

namespace ripieno::report {

/// `ranks` holds one summary per rank, each with that rank alone in ranks[], in any order. Bytes are added up, times
/// are the slowest rank's (stages: the mean), the description of the run is rank 0's, and the test result is that of
/// the lowest rank that has one. Throws Error(internal) on an empty list.
Summary merge_ranks(std::vector<Summary> ranks);

}  // namespace ripieno::report
