// How the C library keeps what is freed: the program's own choice, which no library makes for others.
#pragma once

namespace ripieno::program {

/// Has the C library keep freed memory for the next allocation instead of handing it back to the system. A training
/// step frees and takes the same large blocks again and again; without this each costs the system a zeroed page every 4
/// KiB. For a program's start, before it has threads. Without effect where the C library is not glibc.
void keep_freed_memory();

}  // namespace ripieno::program
