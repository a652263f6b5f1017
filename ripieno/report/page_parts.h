// The parts of a report's page as HTML; internal to report/.
#pragma once

#include <string>
#include <string_view>

#include "ripieno/report/report.h"

namespace ripieno::report {

/// Makes parts of a page that will be in `folder`; links are relative to it.
class PageParts {
 public:
  explicit PageParts(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::string table(const ReportTable& table) const;
  /// The place of a plot, with the text above and below it; the page's script draws the plot.
  std::string figure(const Figure& figure) const;
  /// The drawing, with its numbers folded.
  std::string drawing(const Drawing& drawing) const;
  /// Setting, sentences and notes.
  std::string conclusion(const Conclusion& conclusion) const;
  std::string sentences(const std::vector<Sentence>& sentences, const char* kind) const;
  /// The figures' data for the script.
  std::string figure_data(const std::vector<Figure>& figures) const;

 private:
  std::string link(const std::string& text, const Source& source) const;

  std::filesystem::path folder_;
};

/// Whether its bars are horizontal: those of ways, whose names need room.
bool is_horizontal(const Figure& figure);

}  // namespace ripieno::report
