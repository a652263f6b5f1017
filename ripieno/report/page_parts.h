// The parts of a report's page as HTML; internal to report/.
#pragma once

#include <string>
#include <string_view>

#include "ripieno/report/report.h"

namespace ripieno::report {

/// Makes parts of a page that will lie in `folder`, from which its links go.
class PageParts {
 public:
  explicit PageParts(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::string table(const ReportTable& table) const;
  /// A plot's place, with what stands above and below it; the page's script draws it.
  std::string figure(const Figure& figure) const;
  /// With its numbers folded away.
  std::string drawing(const Drawing& drawing) const;
  /// Setting, sentences and notes.
  std::string conclusion(const Conclusion& conclusion) const;
  std::string sentences(const std::vector<Sentence>& sentences, const char* kind) const;
  /// What the script draws of it.
  std::string figure_data(const std::vector<Figure>& figures) const;

 private:
  std::string link(const std::string& text, const Source& source) const;

  std::filesystem::path folder_;
};

/// Whether its bars go to the right: those of ways, whose names need room.
bool is_horizontal(const Figure& figure);

}  // namespace ripieno::report
