// Results that others have published for the same experiment, beside the results here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ripieno/report/report.h"

namespace ripieno::report {

struct Published {
  std::string title;                  ///< the authors and the table
  std::string note;                   ///< what can be compared and what cannot
  std::vector<std::string> measures;  ///< its columns, by names of measures.h
  /// A cell's name, and one number per column; NaN: not published.
  std::vector<std::pair<std::string, std::vector<double>>> rows;
};

/// Each measure as measured here (mean ± half the width of the 95 % interval over seeds) and as published. With a
/// single measure, also both relative to the first row that has both, since such ratios do not depend on the machine's
/// speed. Runs of a name that differ in more than the seed have a row each, whose name has the difference. "–": not
/// run, or not published. Sources: each cell's first seed. Tables of which no row was run are left out; the others are
/// called "published-1" and so on.
std::vector<ReportTable> published_tables(const std::vector<Published>& published, const std::vector<Run>& runs);

}  // namespace ripieno::report
