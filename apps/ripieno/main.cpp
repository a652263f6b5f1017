#include <unistd.h>

#include <cstdio>

#include "apps/ripieno/freed_memory.h"
#include "apps/ripieno/program.h"

int main(int argc, char** argv) {
  ripieno::program::keep_freed_memory();
  const int code = ripieno::program::run_program(argc, argv, ripieno::model::zoo());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which report at the very end
  // Without the destructors of global objects: LibTorch's take a good part of a tenth of a second, for nothing.
  std::fflush(nullptr);
  _exit(code);
#endif
  return code;
}
