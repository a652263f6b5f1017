// Helpers of the progress bar and of the view of a running job.
#pragma once

#include <string>

namespace ripieno::program {

/// A bar of so many cells, in eighths of a cell so that it moves smoothly; `fraction` from 0 to 1.
std::string bar(double fraction, int cells);

/// "1:05", "2:01:05"
std::string clock_time(double seconds);

/// Columns of the terminal at this descriptor; 80 if it is not a terminal.
int terminal_width(int descriptor);

}  // namespace ripieno::program
