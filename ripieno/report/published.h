// What somebody else has published of the same experiment, beside what came out here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ripieno/report/report.h"

namespace ripieno::report {

struct Published {
  std::string title;                  ///< whose, and which table
  std::string note;                   ///< where a comparison makes sense, and where it does not
  std::vector<std::string> measures;  ///< of measures.h: its columns
  /// A cell's name, and a number a column; NaN: not published.
  std::vector<std::pair<std::string, std::vector<double>>> rows;
};

/// Each measure here (mean ± half the width of the 95 % interval over seeds) and published; of a single measure also
/// both over those of the first row that has both, which machines of another speed have in common. "–": not run, or not
/// published. Sources: of each cell's first seed.
ReportTable published_table(const Published& published, const std::vector<Run>& runs, const std::string& id);

}  // namespace ripieno::report
