// A figure as numbers: what is drawn, tabulated or handed to another program all comes from this.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ripieno {

/// Where a number stands: a line of a run's file, from 1.
struct Source {
  std::filesystem::path file;
  std::size_t line = 0;
};

struct Series {
  std::string name;
  /// For each of the figure's x axes, the x of every point; empty where the figure has categories.
  std::vector<std::vector<double>> x;
  std::vector<double> y;
  std::vector<double> spread;      ///< half the width of each point's 95 % interval; empty: there are no repetitions
  std::vector<std::string> labels; ///< of each point; may be empty
  std::vector<Source> sources;     ///< of each point; may be empty
};

enum class Form {
  lines,
  points,
  bars,          ///< side by side, over categories
  stacked_bars,  ///< on top of each other, over categories
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
};

}  // namespace ripieno
