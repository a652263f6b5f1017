#include "apps/ripieno/freed_memory.h"

#include <malloc.h>

namespace ripieno::program {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);        // arenas of threads are cut into heaps of 64 MiB, which large blocks do not fit into
  mallopt(M_MMAP_MAX, 0);         // blocks of their own go back when freed
  mallopt(M_TRIM_THRESHOLD, -1);  // never
  mallopt(M_TOP_PAD, 16 << 20);   // grown in few steps
#endif
}

}  // namespace ripieno::program
