// A figure as numbers, from which it is drawn, tabulated or exported.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ripieno::report {

/// The source of a number: a line of a run's file, from 1.
struct Source {
  std::filesystem::path file;
  std::size_t line = 0;
};

/// How a way is drawn, the same in all figures of a report (looks.h). Page and pictures have 12 colours, 6 dashes and 8
/// markers.
struct Look {
  int colour = -1;  ///< from 0; -1: none, drawn in greys
  int dash = 0, marker = 0;
  bool operator==(const Look&) const = default;
};

struct Series {
  std::string name;
  /// For each of the figure's x axes, the x of every point; empty if the figure has categories.
  std::vector<std::vector<double>> x;
  std::vector<double> y;
  std::vector<double> spread;       ///< half the width of each point's 95 % interval; empty without repetitions
  std::vector<std::string> labels;  ///< of each point; may be empty
  std::vector<Source> sources;      ///< of each point; may be empty
  Look look = {};
  bool by_category = false;  ///< its bars take the looks of their categories
};

enum class Form {
  lines,
  points,
  bars,          ///< side by side, over categories
  stacked_bars,  ///< on top of each other, over categories
};

/// The part of a report that shows it.
enum class Tier { summary, compare, runs };

/// The drawn part of a figure's y axis, if some values would flatten the rest (scale.h).
struct Scale {
  double low = 0, high = 0;  ///< values outside are named at the edge; low == high: draw everything
  bool is_log = false;
  bool operator==(const Scale&) const = default;
};

struct Figure {
  std::string id;       ///< of letters and "-": "accuracy"
  std::string title;    ///< what it shows, in a few words
  std::string caption;  ///< how to read it, in a sentence or two
  Form form = Form::lines;
  std::vector<std::string> x_titles;    ///< with units; if there are several, the reader chooses
  std::string y_title;                  ///< with its unit
  std::vector<std::string> categories;  ///< of bars, in order: every series has a y for each
  std::vector<Series> series;
  std::vector<Look> category_looks = {};  ///< for bars of ways, one per category; else empty
  Tier tier = Tier::compare;
  bool is_folded = false;  ///< shown when the reader asks for it
  std::string run = {};    ///< its run; empty: it compares ways
};

}  // namespace ripieno::report
