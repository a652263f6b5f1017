// A report of runs: tables and figures as numbers with their sources, and the forms in which it can be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ripieno/report/conclusions.h"
#include "ripieno/report/figure.h"
#include "ripieno/report/run.h"

namespace ripieno::report {

struct ReportCell {
  std::string text;
  std::optional<Source> source;
  std::optional<double> number = {};  ///< the number that the text shows, in full; nullopt if it shows none
  std::optional<double> spread = {};  ///< half the width of its 95 % interval, if it has one
};

struct ReportTable {
  struct Column {
    std::string title;
    bool is_text = false;  ///< else a number, aligned right
  };
  std::string id, title, caption;
  std::vector<Column> columns;
  std::vector<std::vector<ReportCell>> rows;  ///< one cell per column
  Tier tier = Tier::compare;
  bool is_folded = false;  ///< shown when the reader asks for it
};

/// A picture drawn here, not by the browser.
struct Drawing {
  std::string id, title, caption;
  std::string svg;            ///< in the page's colours; its ids begin with `id`
  int width = 0, height = 0;  ///< in pixels
  ReportTable numbers;        ///< the numbers that it shows
};

/// A run's measures (measures.h) by name, without those that it has not.
struct MeasuredRun {
  std::string folder, name;
  std::int64_t seed = 0;
  std::vector<std::pair<std::string, double>> measures;
};

struct Report {
  std::string title;
  std::string lead;  ///< a line that describes the runs
  std::vector<ReportTable> tables;
  std::vector<Figure> figures;  ///< those of single runs last
  std::vector<Conclusion> conclusions = {};
  std::vector<Drawing> drawings = {};
  std::vector<MeasuredRun> measured = {};  ///< every run, in the order given
};

/// Makes the report of these runs, without empty figures. Ways are ordered by their time per epoch. Figures of CPU,
/// network and stages over time show each cell's first run, and other runs as long as the page does not get too many
/// numbers. Numbers that are not finite are shown as such, since they were computed.
Report report_of(const std::vector<Run>& runs, const std::string& title);

/// One HTML file that needs nothing else: Plotly is inside it. Links to sources are relative to `folder`, where the
/// file will be.
std::string html_page(const Report& report, const std::filesystem::path& folder);
/// The height at which the page draws a figure, in pixels; larger with many bars.
int drawn_height(const Figure& figure);
/// The height of legend and plot together, in a picture 1000 pixels wide.
int pictured_height(const Figure& figure);
/// The height of the page's first screen (sentences and their picture), 1200 pixels wide.
int summary_height(const Report& report);
/// Sentences, tables, and each figure's numbers as a table below its title; figures of single runs only in a report of
/// a single way.
std::string report_markdown(const Report& report);
struct CsvFile {
  std::string name, content;
};
/// A file for each table ("runs.csv") and figure ("figure-accuracy.csv"), one for the sentences and one for their
/// statements; each with a line of heads. Numbers are in full, without thousands separators; numbers that are not
/// finite are nan, inf or -inf, and missing ones are empty.
std::vector<CsvFile> report_csv(const Report& report);
/// Tables, figures and every run's measures, as docs/reports.md describes.
std::string report_json(const Report& report);

}  // namespace ripieno::report
