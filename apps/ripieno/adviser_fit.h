// Numbers that the adviser takes from measured runs: docs/adviser.md lists the runs, bench/adviser.py computes these
// numbers from them.
#pragma once

#include <string_view>

namespace ripieno::program {

struct AdviserFit {
  /// The time of a pass in a run relative to the same pass repeated alone: in a run caches are cold, and another worker
  /// runs beside it.
  double pass;
  /// The spread of such a pass around its mean (predict/projection.h), if it takes pass_s. Delays are assumed to be
  /// independent, so that the spread falls with the square root of a pass's length.
  double spread, pass_s;
  double low, high;   ///< bounds of measured over projected seconds per epoch for 95 % of the ways
  int cells;          ///< measured ways from which these numbers were computed
  int others, held;   ///< further ways, and how many of them were within the bounds
  const char* where;  ///< where all were measured
};

inline constexpr AdviserFit adviser_fit{
    1.42, 0.29, 3.3e-3, 0.83, 1.23, 6, 30, 30, "two workers in the lab, 100, 40 and 400 Mb/s"};

/// The questions that those runs answer. Of any other the error is not known, and none is stated.
struct CalibratedRange {
  int least_workers, most_workers;
  double least_mbit_s, most_mbit_s;
  double most_latency_ms;
  bool has_burst;  ///< links let a token bucket's burst through after a pause, as the lab's
  std::string_view model;
};

inline constexpr CalibratedRange adviser_range{2, 2, 40, 400, 0.1, true, "mnist-3conv"};

}  // namespace ripieno::program
