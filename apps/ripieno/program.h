// The program `ripieno` as a function, so that a program of your own becomes it with your models in its zoo
// (examples/own_model.cpp).
#pragma once

#include "ripieno/model/zoo.h"

namespace ripieno::program {

/// Runs the command line. Returns the exit code (docs/errors.md); errors are printed as one line on standard error.
int run_program(int argc, char** argv, const model::Zoo& zoo);

}  // namespace ripieno::program
