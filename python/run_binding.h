// The part of ripieno._ripieno behind ripieno.Run.
#pragma once

#include <pybind11/pybind11.h>

/// After the agreement's class.
void bind_run(pybind11::module_& module);
