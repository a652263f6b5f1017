// The part of ripieno._ripieno behind ripieno.agree.
#pragma once

#include <pybind11/pybind11.h>

/// After the process group's class.
void bind_agree(pybind11::module_& module);
