// The stages of a worker's time. The recorder writes them and reports read, add up and draw them by this table. A new
// stage needs one row here and a StageTimer where its time is spent.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace ripieno::observe {

enum class Stage : std::uint8_t { read, forward, backward, exchange, optimise, other, evaluate, hidden };

/// How a stage's time relates to a step's: part of it, between two steps, or beside the other stages and part of
/// neither.
enum class StageKind : std::uint8_t { in_step, between_steps, beside };

struct StageInfo {
  Stage stage;
  const char* name;    ///< in files
  const char* label;   ///< in figures
  const char* column;  ///< heading of a table's column
  StageKind kind;
  int colour;   ///< for terminals
  char letter;  ///< in its place where there are no colours
};

inline constexpr std::array stages{
    StageInfo{Stage::read, "read", "reading", "read", StageKind::in_step, 37, 'r'},
    StageInfo{Stage::forward, "forward", "forward", "fwd", StageKind::in_step, 34, 'f'},
    StageInfo{Stage::backward, "backward", "backward", "bwd", StageKind::in_step, 36, 'b'},
    StageInfo{Stage::exchange, "exchange", "waiting for the exchange", "exch.", StageKind::in_step, 31,
              'e'},  // the part that compute waited for
    StageInfo{Stage::optimise, "optimise", "optimiser", "opt.", StageKind::in_step, 33, 'o'},
    StageInfo{Stage::other, "other", "other", "other", StageKind::in_step, 90,
              '.'},  // of a step of a loop of one's own, what the loop has not marked as another stage; else 0
    StageInfo{Stage::evaluate, "evaluate", "evaluation", "eval.", StageKind::between_steps, 35, 't'},
    StageInfo{Stage::hidden, "exchange_hidden", "hidden", "hidden", StageKind::beside, 32,
              'h'},  // the part that ran beside other stages
};

/// Whether a table or figure shows a stage whose times come to `time`: all that the program's runs have, and what else
/// is there.
constexpr bool is_shown(const StageInfo& stage, double time) { return stage.stage != Stage::other || time > 0; }

constexpr const StageInfo& info(Stage stage) { return stages[static_cast<std::size_t>(stage)]; }
static_assert(
    [] {
      for (std::size_t i = 0; i < stages.size(); ++i) {
        if (static_cast<std::size_t>(stages[i].stage) != i) return false;
      }
      return true;
    }(),
    "the table's rows are in the order of their stages");

/// A time for each stage.
template <class T>
class PerStage {
 public:
  PerStage() = default;
  /// In the table's order; missing ones are 0.
  PerStage(std::initializer_list<T> times) {
    std::copy_n(times.begin(), std::min(times.size(), stages.size()), times_.begin());
  }

  T& operator[](Stage stage) { return times_[static_cast<std::size_t>(stage)]; }
  const T& operator[](Stage stage) const { return times_[static_cast<std::size_t>(stage)]; }

  PerStage& operator+=(const PerStage& more) {
    for (std::size_t i = 0; i < stages.size(); ++i) times_[i] += more.times_[i];
    return *this;
  }
  /// The time of the steps.
  T steps() const {
    T sum{};
    for (const StageInfo& one : stages) {
      if (one.kind == StageKind::in_step) sum += (*this)[one.stage];
    }
    return sum;
  }

 private:
  std::array<T, stages.size()> times_{};
};

}  // namespace ripieno::observe
