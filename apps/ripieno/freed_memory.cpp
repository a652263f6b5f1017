#include "apps/ripieno/freed_memory.h"

#include <malloc.h>

namespace ripieno::program {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);        // threads' arenas consist of heaps of 64 MiB, too small for large blocks
  mallopt(M_MMAP_MAX, 0);         // blocks with their own mapping would go back when freed
  mallopt(M_TRIM_THRESHOLD, -1);  // never trim
  mallopt(M_TOP_PAD, 16 << 20);   // grow in few steps
#endif
}

}  // namespace ripieno::program
