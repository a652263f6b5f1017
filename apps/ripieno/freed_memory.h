// Makes the C library keep freed memory. The program decides this, since a library should not for others.
#pragma once

namespace ripieno::program {

/// Makes the C library keep freed memory for the next allocation instead of returning it to the system. A training step
/// frees and allocates the same large blocks again and again; without this the system has to zero every 4 KiB page of
/// them. Call it at the program's start, before it has threads. No effect without glibc.
void keep_freed_memory();

}  // namespace ripieno::program
