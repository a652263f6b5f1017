// One look a way to agree, alike in all figures of a report.
#pragma once

#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

inline constexpr int colours = 12, dashes = 6, markers = 8;

/// Gives each cell its look: colours go by name, in the order in which names first appear, so that a way keeps its
/// colour over models and workers; a colour that comes again has another dash, and then another marker. No two cells
/// look alike, up to colours * dashes * markers.
void give_looks(std::vector<Cell>& cells);

}  // namespace ripieno::report
