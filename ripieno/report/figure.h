// A figure as numbers: what is drawn, tabulated or handed to another program all comes from this.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ripieno::report {

/// Where a number stands: a line of a run's file, from 1.
struct Source {
  std::filesystem::path file;
  std::size_t line = 0;
};

/// How a way to agree is drawn: alike in all figures of a report (looks.h). Page and pictures have 12 colours, 6 dashes
/// and 8 markers.
struct Look {
  int colour = -1;  ///< from 0; -1: none of its own, drawn in greys
  int dash = 0, marker = 0;
  bool operator==(const Look&) const = default;
};

struct Series {
  std::string name;
  /// For each of the figure's x axes, the x of every point; empty where the figure has categories.
  std::vector<std::vector<double>> x;
  std::vector<double> y;
  std::vector<double> spread;       ///< half the width of each point's 95 % interval; empty: there are no repetitions
  std::vector<std::string> labels;  ///< of each point; may be empty
  std::vector<Source> sources;      ///< of each point; may be empty
  Look look = {};
  bool by_category = false;  ///< its bars have the looks of their categories
};

enum class Form {
  lines,
  points,
  bars,          ///< side by side, over categories
  stacked_bars,  ///< on top of each other, over categories
};

/// The part of a report that it stands in.
enum class Tier { summary, compare, runs };

/// What of a figure's y axis is drawn, where some of it would flatten the rest (scale.h).
struct Scale {
  double low = 0, high = 0;  ///< what lies outside is named at the edge; low == high: all is drawn
  bool is_log = false;
  bool operator==(const Scale&) const = default;
};

struct Figure {
  std::string id;       ///< of letters and "-": "accuracy"
  std::string title;    ///< what is seen, in a few words
  std::string caption;  ///< what to know to read it, in a sentence or two
  Form form = Form::lines;
  std::vector<std::string> x_titles;    ///< with units; where there are several the reader chooses
  std::string y_title;                  ///< with its unit
  std::vector<std::string> categories;  ///< of bars, in order: every series has a y for each
  std::vector<Series> series;
  std::vector<Look> category_looks = {};  ///< of bars for each way: one a category; else empty
  Tier tier = Tier::compare;
  bool is_folded = false;  ///< shown when the reader asks for it
  std::string run = {};    ///< the run that it is of; empty: it compares ways
};

}  // namespace ripieno::report
