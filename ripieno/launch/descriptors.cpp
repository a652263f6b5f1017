#include "ripieno/launch/descriptors.h"

#include <sys/resource.h>

#include <filesystem>

#include "ripieno/core/error.h"

namespace ripieno::launch {

void make_room_for_descriptors(std::size_t more, const std::string& who) {
  rlimit limit{};
  std::error_code unknown;
  const std::filesystem::directory_iterator files("/proc/self/fd", unknown);
  if (unknown || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const std::size_t needed = more + static_cast<std::size_t>(std::distance(begin(files), end(files)));
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed) {
    fail(ErrorKind::io, who, ": some ", needed, " files, sockets and pipes are open at once, but the limit is ",
         limit.rlim_max, ": raise the hard limit (ulimit -Hn), or take fewer workers");
  }
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ripieno::launch
