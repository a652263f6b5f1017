// What part of an axis is drawn: a way that is far off the others does not flatten them.
#pragma once

#include "ripieno/report/figure.h"

namespace ripieno::report {

/// Of the figure's y axis.
///   bars     of ways: those above 10 times the median, and 3 times the longest of the others, are cut above that one,
///   their numbers written on them lines    of one measure over the same axis: lines that end far below the others
///   (more than 15, and more than five times as far below
///            the median as the best is above it) are left below the edge, and named there. Ranks and rates, whose
///            values are all above 0: logarithmic, where one line's highest is above 10 times the middle one's
///   points   as lines
Scale scale_of(const Figure& figure);

/// Whether the x axis is to be logarithmic: all of it is above 0, and the series' ends lie more than 10 times apart.
bool is_x_log(const Figure& figure, std::size_t axis);

}  // namespace ripieno::report
