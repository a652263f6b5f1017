// Two ways' numbers compared seed by seed. Runs of one seed share their data's order and their first weights, so that
// much of what differs from seed to seed is the same in both: a paired test sees what two intervals hide.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "ripieno/report/ways.h"

namespace ripieno::report {

/// Times, rates and bytes are compared as ratios (differences of logarithms), accuracies as differences.
enum class By { ratio, difference };

struct Paired {
  std::size_t seeds = 0;  ///< that both have
  bool is_ratio = false;  ///< a / b, else a - b; also a difference if a number is not above 0
  double effect = 0;      ///< its mean over seeds, of ratios the geometric mean; without a seed in common, of the means
  double half = 0;        ///< half the width of its 95 % interval, of a ratio's logarithm; 0 below two seeds
  double p = 1;           ///< of the paired t-test (statistics.h); 1 below two seeds
  bool is_ranked = false;  ///< p, corrected for all pairs tested beside it, is below 5 %
};

/// The pair by itself.
Paired paired(const Estimate& a, const Estimate& b, By by);

/// The pairs of ways that one sentence compares. Their p values are corrected together (Holm), so that the sentence
/// ranks a pair wrongly with a probability of 5 % at most.
class Pairs {
 public:
  /// `is_counted`: the numbers are counted or computed, not measured, so that one seed ranks them.
  explicit Pairs(By by, bool is_counted = false) : by_(by), is_counted_(is_counted) {}
  /// Tests ways number a and b, once.
  void add(std::size_t a, const Estimate& of_a, std::size_t b, const Estimate& of_b);
  /// Corrects; to be called after the last add().
  void correct();
  /// a beside b, a pair that was added in either order.
  Paired between(std::size_t a, std::size_t b) const;
  /// How many pairs have two seeds in common or more.
  std::size_t tested() const;

 private:
  By by_;
  bool is_counted_;
  std::map<std::pair<std::size_t, std::size_t>, Paired> pairs_;
};

}  // namespace ripieno::report
