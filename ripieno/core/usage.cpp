#include "ripieno/core/usage.h"

#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ripieno {
namespace {

/// Bytes in the line "NAME: 123 kB" of a file of /proc.
std::uint64_t bytes_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) != 0) continue;
    std::istringstream rest(line.substr(name.size() + 1));
    std::uint64_t kilobytes = 0;
    rest >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);        // arenas of threads are cut into heaps of 64 MiB, which large blocks do not fit into
  mallopt(M_MMAP_MAX, 0);         // blocks of their own go back when freed
  mallopt(M_TRIM_THRESHOLD, -1);  // never
  mallopt(M_TOP_PAD, 16 << 20);   // grown in few steps
#endif
}

std::uint64_t proportional_memory() { return bytes_in("/proc/self/smaps_rollup", "Pss"); }

std::uint64_t peak_resident_memory() { return bytes_in("/proc/self/status", "VmHWM"); }

CpuSeconds cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; };
  return {seconds(used.ru_utime), seconds(used.ru_stime)};
}

}  // namespace ripieno
