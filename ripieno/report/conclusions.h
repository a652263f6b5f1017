// The first sentences of a report, made from its runs' numbers; each number has its source line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

/// A piece of a sentence: words, the name of a way (a strategy with its options), or a number.
struct Piece {
  std::string text;
  std::optional<Source> source = {};  ///< of a number
  bool is_name = false;               ///< the name of a way
};

struct Sentence {
  /// "time", "bytes", "accuracy", "waiting", "run", "scaling"; of notes "losses", "arithmetic", "alone", "chance"
  std::string about;
  std::vector<Piece> pieces;
  std::string str() const;
};

/// The conclusion from runs with the same setting (setting.h).
struct Conclusion {
  std::string setting;                 ///< in words, with the baseline
  std::vector<Sentence> sentences;     ///< three if several ways are compared, else one
  std::vector<Sentence> notes;         ///< notes for judging them
  std::string baseline = {};           ///< the cell that the others are compared with; "" for a single cell
  double target = 0;                   ///< per cent of the test set; 0: none
  std::vector<std::string> ways = {};  ///< names of its cells
};

/// Groups cells by setting, the largest group first. In each group, the winner
///   by time      of an epoch, evaluation left out
///   by bytes     that the busiest rank sends per epoch
///   by accuracy  seconds of training to a target: the highest half per cent that all ways reach in all their runs,
///                except ways more than 5 points behind the median way
/// is compared with a ring in fp32, or without one with the slowest exact way, else with the slowest way. Ways that do
/// not reach the target cannot win, and are named. Ways whose 95 % intervals overlap cannot be told apart; with one
/// seed, those that differ by less than 3 % of time or a point of accuracy. Without accuracies (replays) the third
/// sentence is about waiting for the exchange.
std::vector<Conclusion> conclusions(const std::vector<Cell>& cells);

/// All sentences as plain text.
std::string str(const std::vector<Conclusion>& conclusions);

}  // namespace ripieno::report
