// A report of runs: tables and figures as numbers, each of which says where it is from; and the forms that it can be
// given.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/conclusions.h"
#include "ripieno/report/figure.h"
#include "ripieno/report/run.h"

namespace ripieno::report {

struct ReportCell {
  std::string text;
  std::optional<Source> source;
  std::optional<double> number = {};  ///< what the text shows, in full; none where it shows no number
  std::optional<double> spread = {};  ///< half the width of its 95 % interval, where it has one
};

struct ReportTable {
  struct Column {
    std::string title;
    bool is_text = false;  ///< else a number, to the right
  };
  std::string id, title, caption;
  std::vector<Column> columns;
  std::vector<std::vector<ReportCell>> rows;  ///< a cell a column
  Tier tier = Tier::compare;
  bool is_folded = false;  ///< shown when the reader asks for it
};

/// A picture that is drawn here, and not by the browser.
struct Drawing {
  std::string id, title, caption;
  std::string svg;            ///< in the page's colours; its ids begin with `id`
  int width = 0, height = 0;  ///< in pixels
  ReportTable numbers;        ///< what it shows
};

struct Report {
  std::string title;
  std::string lead;  ///< a line: what the runs are
  std::vector<ReportTable> tables;
  std::vector<Figure> figures;  ///< those of single runs last
  std::vector<Conclusion> conclusions = {};
  std::vector<Drawing> drawings = {};
};

/// What there is to say of these runs; figures that would show nothing are left out. Ways are in the order of the time
/// that an epoch of theirs takes. CPU and network over time, and stages over time, are those of each cell's first run,
/// and of the other runs as far as their numbers do not become too many for a page. What is not a finite number is
/// shown as such: it was computed.
Report report_of(const std::vector<Run>& runs, const std::string& title);

/// One HTML file that needs nothing else: Plotly is inside it. Sources are linked as seen from `folder`, where it will
/// lie.
std::string html_page(const Report& report, const std::filesystem::path& folder);
/// How high the page draws a figure, in pixels: more where it has many bars.
int drawn_height(const Figure& figure);
/// How high its legend and its plot are together, as a picture of 1000 pixels' width.
int pictured_height(const Figure& figure);
/// The same of the page's first screen, sentences and their picture: 1200 pixels wide.
int summary_height(const Report& report);
/// Sentences, tables, and below each figure's title its numbers as a table; figures of single runs only in a report of
/// one way alone.
std::string report_markdown(const Report& report);
/// A line a number: figure,series,x axis,x,y,spread,source; tables the same way, with row and column, sentences with
/// what they are about. Numbers in full, without separators of thousands; what is not finite as nan, inf or -inf, and
/// nothing where there is no number.
std::string report_csv(const Report& report);
/// The tables and figures as docs/reports.md describes them.
std::string report_json(const Report& report);

}  // namespace ripieno::report
