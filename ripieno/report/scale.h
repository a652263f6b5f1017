// The drawn part of an axis, so that a way far from the others does not flatten them.
#pragma once

#include "ripieno/report/figure.h"

namespace ripieno::report {

/// The drawn part of the figure's y axis.
///   bars     of ways: bars above 10 times the median and 3 times the longest of the others are cut above that
///            one, with their numbers written on them
///   lines    of one measure over the same axis: lines that end far below the others (more than 15, and more than five
///            times as far below the median as the best is above it) are left below the edge, and named there. Ranks
///            and rates, whose values are all above 0: logarithmic if one line's highest value is above 10 times the
///            median line's
///   points   as lines
Scale scale_of(const Figure& figure);

/// Whether the x axis should be logarithmic: all values are above 0, and the series' ends differ by more than a factor
/// of 10.
bool is_x_log(const Figure& figure, std::size_t axis);

}  // namespace ripieno::report
