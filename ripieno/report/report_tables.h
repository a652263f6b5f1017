// The tables of a report; internal to report/.
#pragma once

#include <string>
#include <vector>

#include "ripieno/report/report.h"

namespace ripieno::report {

/// One row per way: what it reaches, takes and sends, compared with its conclusion's baseline.
ReportTable ways_table(const std::vector<Cell>& cells, const std::vector<Conclusion>& conclusions);
/// More columns of the same, which the page folds.
ReportTable more_of_ways_table(const std::vector<Cell>& cells);

/// One row per run. Text columns with the same value in all runs go to `lead`.
ReportTable runs_table(const std::vector<Run>& runs, std::string* lead);
ReportTable more_of_runs_table(const std::vector<Run>& runs);
ReportTable places_table(const std::vector<Run>& runs);

}  // namespace ripieno::report
