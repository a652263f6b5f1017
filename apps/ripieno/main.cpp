#include "apps/ripieno/program.h"

int main(int argc, char** argv) { return ripieno::run_program(argc, argv, ripieno::zoo()); }
