// The progress of a job on the terminal: one line, redrawn a few times a second; if standard error is not a terminal,
// one line per epoch.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ripieno::program {

class ProgressBar {
 public:
  enum class Kind { none, lines, bar };
  explicit ProgressBar(Kind kind) : kind_(kind) {}
  /// A bar on a terminal, lines elsewhere.
  static ProgressBar automatic();

  bool is_bar() const { return kind_ == Kind::bar; }
  /// Begins a run with this title: "2/5 ring".
  void title(const std::string& title);
  /// Wall-clock seconds since title(); the run itself may be in virtual time.
  double elapsed() const;
  /// How many runs follow this one, and how long a run has taken so far (nullopt: assume as long as this one), so that
  /// the bar shows the time left for all.
  void runs_after(std::size_t count, std::optional<double> seconds_of_one) {
    runs_after_ = count;
    seconds_of_one_ = seconds_of_one;
  }
  /// Prints a permanent line, with the title before it.
  void line(const std::string& what);
  /// Shows a worker's message (worker.h). Ranks that evaluate together report the same epochs, of which the first
  /// report counts; likewise for a loss that is not finite. While ranks wait and the shown one makes no progress, whom
  /// they wait for is shown in place of a rate and of the time left.
  void message(int rank, const nlohmann::json& message);
  /// Says that a worker is lost while the others go on.
  void loss(const std::string& how) { line(how + "; the other ranks go on"); }
  /// Removes the bar from the terminal when the run has ended.
  void clear();

 private:
  void show_waits(int rank, const nlohmann::json& message);
  /// The bar's beginning: "ring ▕███  ▏ epoch 2/5  ".
  std::string head() const;
  void hide();
  void draw(const std::string& line);

  Kind kind_;
  std::string title_;
  std::string score_;  ///< of the last evaluated epoch
  int epoch_ = 0;      ///< the last one reported
  int rank_ = -1;      ///< the rank whose progress is shown: the first worker to report
  bool drawn_ = false;
  double fraction_ = 0;  ///< of the run, and where it is, as last shown
  int at_epoch_ = 0, epochs_ = 0;
  std::map<int, std::vector<int>> waits_;  ///< by rank: whom it waits for, since its last step
  bool told_of_waits_ = false;             ///< in a line, since the last step
  std::chrono::steady_clock::time_point moved_ = std::chrono::steady_clock::now();  ///< the last progress
  bool warned_ = false;  // about a loss that is not finite, in this run
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::size_t runs_after_ = 0;
  std::optional<double> seconds_of_one_;
};

}  // namespace ripieno::program
