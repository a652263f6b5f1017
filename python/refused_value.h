// How an option's value from Python is refused.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "ripieno/core/error.h"

/// A ValueError there: the value is of no type, or in no range, that the option has.
[[noreturn]] inline void refuse_value(const std::string& option, const pybind11::handle& value) {
  ripieno::fail(ripieno::ErrorKind::usage, option, " = ", pybind11::cast<std::string>(pybind11::repr(value)),
                "; its type, or its range, is another");
}
