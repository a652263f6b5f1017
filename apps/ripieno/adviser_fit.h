// What the adviser takes from runs that were really measured: docs/adviser.md has them, bench/adviser.py makes these
// numbers of them.
#pragma once

namespace ripieno::program {

struct AdviserFit {
  /// Times that a pass takes in a run what it takes alone, over and over: caches are cold then, and another worker is
  /// beside it.
  double pass;
  /// Of such a pass around its mean (predict/projection.h), where it takes pass_s. What delays it is taken to come
  /// independently, so that the spread falls with the root of a pass's length.
  double spread, pass_s;
  double low, high;   ///< measured seconds an epoch over projected ones: what 95 % of ways to agree stay within
  int cells;          ///< ways to agree, each of them measured, that all this was computed from
  int others, held;   ///< further ones, and how many of these stayed within
  const char* where;  ///< all were measured
};

inline constexpr AdviserFit adviser_fit{
    1.42, 0.29, 3.3e-3, 0.83, 1.23, 6, 30, 30, "two workers in the lab, 100, 40 and 400 Mb/s"};

}  // namespace ripieno::program
