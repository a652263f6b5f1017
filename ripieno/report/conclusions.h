// The first sentences of a report, made from its runs' numbers; each number has its source line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ripieno/report/pairing.h"
#include "ripieno/report/run.h"
#include "ripieno/report/statements.h"

namespace ripieno::report {

/// The conclusion from runs with the same setting (setting.h).
struct Conclusion {
  std::string setting;                 ///< in words, with the baseline
  std::vector<Sentence> sentences;     ///< three if several ways are compared, else one
  std::vector<Sentence> notes;         ///< notes for judging them
  std::string baseline = {};           ///< the cell that the others are compared with; "" for a single cell
  double target = 0;                   ///< per cent of the test set; 0: none
  std::vector<std::string> ways = {};  ///< names of its cells
  /// By a cell's name, the baseline beside it: its seconds of an epoch, and the bytes of its busiest rank, over the
  /// cell's; corrected for all pairs that the sentences test. None of the baseline itself.
  std::map<std::string, Paired> faster = {}, smaller = {};
};

/// Groups cells by setting, the largest group first. In each group, the winner
///   by time      of an epoch, evaluation left out
///   by bytes     that the busiest rank sends per epoch
///   by accuracy  seconds of training to a target: the highest half per cent that all ways reach in all their runs,
///                except ways more than 5 points behind the median way
/// is compared with a ring in fp32, or without one with the slowest exact way, else with the slowest way. Ways that do
/// not reach the target cannot win, and are named. A target is above what guessing gets. Ways are compared seed by seed
/// (pairing.h); one seed of a measured number ranks nothing, and sentences then say what was measured. Without a target
/// the third sentence is about waiting for the exchange.
std::vector<Conclusion> conclusions(const std::vector<Cell>& cells);

/// All sentences as plain text.
std::string str(const std::vector<Conclusion>& conclusions);

}  // namespace ripieno::report
