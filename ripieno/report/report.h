// A report of runs: tables and figures as numbers, each of which says where it is from; and the forms that it can be given.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/figure.h"
#include "ripieno/report/run.h"

namespace ripieno {

struct ReportCell {
  std::string text;
  std::optional<Source> source;
};

struct ReportTable {
  struct Column {
    std::string title;
    bool is_text = false;  ///< else a number, to the right
  };
  std::string id, title, caption;
  std::vector<Column> columns;
  std::vector<std::vector<ReportCell>> rows;  ///< a cell a column
};

struct Report {
  std::string title;
  std::string lead;  ///< a sentence below the title
  std::vector<ReportTable> tables;
  std::vector<Figure> figures;
};

/// What there is to say of these runs; figures that would show nothing are left out. CPU and network over time, and stages over time,
/// are those of each cell's first run.
Report report_of(const std::vector<Run>& runs, const std::string& title);

/// One HTML file that needs nothing else: Plotly is inside it. Sources are linked as seen from `folder`, where it will lie.
std::string html_page(const Report& report, const std::filesystem::path& folder);
/// How high the page draws a figure, in pixels: more where it has many bars or a long legend.
int drawn_height(const Figure& figure);
/// Tables, and below each figure's title its numbers as a table.
std::string report_markdown(const Report& report);
/// A line a number: figure,series,x axis,x,y,spread,source; tables the same way, with row and column.
std::string report_csv(const Report& report);
/// The tables and figures as docs/reports.md describes them.
std::string report_json(const Report& report);

}  // namespace ripieno
