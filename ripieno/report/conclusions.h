// What a report says first: sentences made of its runs' numbers, each with the line that it is from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

/// A piece of a sentence: words, the name of a way, or a number.
struct Piece {
  std::string text;
  std::optional<Source> source = {};  ///< of a number
  bool is_name = false;               ///< of a way
};

struct Sentence {
  std::string
      about;  ///< "time", "bytes", "accuracy", "waiting", "run", "scaling"; of notes "arithmetic", "alone", "chance"
  std::vector<Piece> pieces;
  std::string str() const;
};

/// Of runs whose settings (setting.h) are alike.
struct Conclusion {
  std::string setting;                 ///< in words, with what ways are compared to
  std::vector<Sentence> sentences;     ///< three where several ways are compared, else one
  std::vector<Sentence> notes;         ///< what to know to judge them
  std::string baseline = {};           ///< the cell that the others are compared with; "" of one alone
  double target = 0;                   ///< per cent of the test set; 0: none
  std::vector<std::string> ways = {};  ///< names of the cells that it is about
};

/// The largest group of cells with alike settings first. In each, the winner
///   by time      of an epoch, evaluation left out
///   by bytes     that the busiest rank sends an epoch
///   by accuracy  seconds of training to a target: the highest half per cent that all ways come to in all their runs,
///   but those that are
///                more than 5 points behind the median of the ways
/// beside a ring in fp32, where there is none the slowest exact way, else the slowest. Ways that do not come to the
/// target can win nothing, and are named. Ways whose 95 % intervals overlap cannot be told apart; of one seed, below 3
/// % of time or a point of accuracy. Without accuracies (replays) the third is of waiting for the exchange.
std::vector<Conclusion> conclusions(const std::vector<Cell>& cells);

/// All sentences, for who takes plain text.
std::string str(const std::vector<Conclusion>& conclusions);

}  // namespace ripieno::report
