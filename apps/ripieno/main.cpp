#include "apps/ripieno/program.h"
#include "ripieno/core/usage.h"

int main(int argc, char** argv) {
  ripieno::keep_freed_memory();
  return ripieno::run_program(argc, argv, ripieno::zoo());
}
