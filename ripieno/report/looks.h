// One look for each way, the same in all figures of a report; a strategy's colour is the same in all reports.
#pragma once

#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

inline constexpr int colours = 12, dashes = 6, markers = 8;

/// Gives each cell its look. A run that has the name of its strategy, one of the library's, has that strategy's colour,
/// whatever else the report shows. Other names (a codec's, a recipe's own) get colours that are still free, as far as
/// there are any, always the same one where it is free; a way keeps its colour over models and workers. A repeated
/// colour gets another dash, then another marker. Up to colours * dashes * markers cells all look different.
void give_looks(std::vector<Cell>& cells);

}  // namespace ripieno::report
