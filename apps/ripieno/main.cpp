#include "apps/ripieno/freed_memory.h"
#include "apps/ripieno/program.h"

int main(int argc, char** argv) {
  ripieno::keep_freed_memory();
  return ripieno::run_program(argc, argv, ripieno::zoo());
}
