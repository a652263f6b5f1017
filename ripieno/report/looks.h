// One look for each way, the same in all figures of a report.
#pragma once

#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

inline constexpr int colours = 12, dashes = 6, markers = 8;

/// Gives each cell its look. Names get colours in the order of their first appearance, so that a way keeps its colour
/// over models and workers. A repeated colour gets another dash, then another marker. Up to colours * dashes * markers
/// cells all look different.
void give_looks(std::vector<Cell>& cells);

}  // namespace ripieno::report
