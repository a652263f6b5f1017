// The program `ripieno` as a function, so that your own program can be `ripieno` with your models in its zoo
// (examples/own_model.cpp).
#pragma once

#include "ripieno/model/zoo.h"

namespace ripieno::program {

/// Runs the command line. Returns the exit code (docs/errors.md); errors are printed as one line on standard error.
int run_program(int argc, char** argv, const model::Zoo& zoo);

}  // namespace ripieno::program
