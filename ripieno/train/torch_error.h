// Shortens LibTorch's errors, many lines long and mostly stack frames, to one line; the rest is printed on request.
#pragma once

#include <exception>
#include <string>

#include "ripieno/core/error.h"

namespace ripieno::train {

/// From now on this process also prints errors in full on standard error: `ripieno train --verbose`.
void print_errors_in_full();

/// An Error(usage) with `what` was being done and the first line of LibTorch's error, without frames.
Error torch_error(const std::exception& error, const std::string& what);

/// The first line of an error; prints all its lines if print_errors_in_full() was called.
std::string first_line(const std::exception& error);

}  // namespace ripieno::train
