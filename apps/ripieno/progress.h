// The progress of a job on the terminal: one line that is drawn over, a few times a second; where standard error is no
// terminal, a line an epoch.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace ripieno::program {

class ProgressBar {
 public:
  enum class Kind { none, lines, bar };
  explicit ProgressBar(Kind kind) : kind_(kind) {}
  /// A bar on a terminal, lines elsewhere.
  static ProgressBar automatic();

  bool is_bar() const { return kind_ == Kind::bar; }
  /// What is running: "2/5 ring". A run begins.
  void title(const std::string& title);
  /// Seconds since then, by the clock on the wall: a run may have another of its own.
  double elapsed() const;
  /// How many runs come after this one, and what one took so far (none yet: as long as this one does): the bar shows
  /// how long all will take.
  void runs_after(std::size_t count, std::optional<double> seconds_of_one) {
    runs_after_ = count;
    seconds_of_one_ = seconds_of_one;
  }
  /// A line that stays, with the title before it.
  void line(const std::string& what);
  /// A worker's message (worker.h). Ranks that evaluate together report the same epochs: the first counts; so it is
  /// with a loss that is not finite.
  void message(int rank, const nlohmann::json& message);
  /// Takes the bar off the terminal: the run has ended.
  void clear();

 private:
  void hide();
  void draw(const std::string& line);

  Kind kind_;
  std::string title_;
  std::string score_;  ///< of the last evaluated epoch
  int epoch_ = 0;      ///< the last that was told of
  int rank_ = -1;      ///< whose progress is shown: the first worker's that reports
  bool drawn_ = false;
  bool warned_ = false;  // of a loss that is not finite, in this run
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::size_t runs_after_ = 0;
  std::optional<double> seconds_of_one_;
};

}  // namespace ripieno::program
