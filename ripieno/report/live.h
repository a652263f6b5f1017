// The present state of a run, from the metrics that its ranks have written so far.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/metrics.h"

namespace ripieno::report {

struct RankNow {
  int rank = 0;
  std::uint32_t epoch = 0;       ///< from 0
  std::uint64_t steps = 0;       ///< done
  double images_per_second = 0;  ///< of this rank
  std::optional<double> loss;    ///< mean over the window; nullopt for a rank without samples
  StageSeconds stages;           ///< sums over the window
  std::optional<double> cpu;     ///< in cores: 1 is a whole core
  double resident = 0;           ///< bytes
  double bytes_per_second = 0;   ///< sent over the network, or over the loopback if there is no other
};

struct RunNow {
  std::vector<RankNow> ranks;
  bool is_planned = false;             ///< whether it is known how many steps there will be
  double fraction = 0;                 ///< the part of the planned steps that is done: 0 to 1
  std::optional<double> seconds_left;  ///< nullopt before the first steps
  double images_per_second = 0;        ///< of all ranks
  std::optional<double> accuracy;      ///< the last one known, 0 to 1
  std::uint32_t epochs = 0;            ///< planned; 0: not known
  /// Where ranks wait and no rank has ended a step for long: for how many seconds, and the ranks waited for.
  double still = 0;
  std::vector<int> awaited;
};

/// Rates and means are over the last `window` seconds of each rank. `ranks`: the metrics of ranks that have begun.
RunNow run_now(const std::vector<const Metrics*>& ranks, double window = 5);

/// After so many seconds without a step, which takes `seconds_of_step` otherwise, a wait is worth telling of.
double is_long(double seconds_of_step);
/// The ranks that others wait for and that do not wait themselves; all that are waited for if those do. `waits`: the
/// ranks that a rank waits for, by rank.
std::vector<int> awaited_at_last(const std::map<int, std::vector<int>>& waits);
/// "waiting for ranks 1 and 3 for 40 s"
std::string waiting_for(const std::vector<int>& ranks, double seconds);

}  // namespace ripieno::report
