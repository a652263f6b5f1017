// LibTorch's errors are many lines long, most of them frames of the stack: said in one, and the rest to whoever asks.
#pragma once

#include <exception>
#include <string>

#include "ripieno/core/error.h"

namespace ripieno::train {

/// Has errors printed in full on standard error, too, in this process from now on: `ripieno train --verbose`.
void print_errors_in_full();

/// Error(usage): what was done, and the first line of what LibTorch says of it, with no frames.
Error torch_error(const std::exception& error, const std::string& what);

/// The first line of an error that may have many; prints all of them where that is asked for.
std::string first_line(const std::exception& error);

}  // namespace ripieno::train
