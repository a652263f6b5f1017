// What a process asks of its memory: how the C library keeps what is freed, and how much was used.
#pragma once

#include <cstdint>

namespace ripieno {

/// Has the C library keep freed memory for the next allocation instead of handing it back to the system. A training step
/// frees and takes the same large blocks again and again; without this each costs the system a zeroed page every 4 KiB.
/// For a program's start, before it has threads. Without effect where the C library is not glibc.
void keep_freed_memory();

/// Bytes of this process's memory now, pages that it shares counted as its share of them (the proportional set size);
/// 0 where the system does not tell.
std::uint64_t proportional_memory();

/// The most bytes that were in memory at once since the start, shared pages counted in full; 0 where the system does not tell.
std::uint64_t peak_resident_memory();

/// CPU time that this process has taken so far, in user code and in the system, in seconds.
struct CpuSeconds {
  double user = 0, system = 0;
};
CpuSeconds cpu_seconds();

}  // namespace ripieno
