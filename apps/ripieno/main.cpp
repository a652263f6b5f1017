#include "apps/ripieno/freed_memory.h"
#include "apps/ripieno/program.h"

int main(int argc, char** argv) {
  ripieno::program::keep_freed_memory();
  return ripieno::program::run_program(argc, argv, ripieno::model::zoo());
}
