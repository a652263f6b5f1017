// The tables of a report; internal to report/.
#pragma once

#include <string>
#include <vector>

#include "ripieno/report/report.h"

namespace ripieno::report {

/// A row a way: what it reaches, takes and sends, beside the baseline of its conclusion.
ReportTable ways_table(const std::vector<Cell>& cells, const std::vector<Conclusion>& conclusions);
/// What the page folds away: the rest of the same.
ReportTable more_of_ways_table(const std::vector<Cell>& cells);

/// A row a run. Columns of words in which all runs are alike go to `lead`.
ReportTable runs_table(const std::vector<Run>& runs, std::string* lead);
ReportTable more_of_runs_table(const std::vector<Run>& runs);

}  // namespace ripieno::report
