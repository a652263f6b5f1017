// The progress of a job on the terminal: one line that is drawn over, a few times a second; where standard error is no
// terminal, a line an epoch.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ripieno {

class ProgressBar {
 public:
  enum class Kind { none, lines, bar };
  explicit ProgressBar(Kind kind) : kind_(kind) {}
  /// A bar on a terminal, lines elsewhere.
  static ProgressBar automatic();

  /// What is running: "2/5 ring".
  void title(const std::string& title) { title_ = title; }
  /// A worker's message (worker.h). Ranks that evaluate together report the same epochs: the first counts.
  void message(int rank, const nlohmann::json& message);
  /// Takes the bar off the terminal.
  void clear();

 private:
  void draw(const std::string& line);

  Kind kind_;
  std::string title_;
  std::string score_;  ///< of the last evaluated epoch
  int epoch_ = 0;      ///< the last that was told of
  int rank_ = -1;      ///< whose progress is shown: the first worker's that reports
  bool drawn_ = false;
};

}  // namespace ripieno
