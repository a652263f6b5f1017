#include "apps/ripieno/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace ripieno {
namespace {

int open_folder(const std::filesystem::path& folder) { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

}  // namespace

// Holders share it, and who asks takes it for itself: two that ask at once do not keep a holder out.
RunLock::RunLock(const std::filesystem::path& folder) : fd_(open_folder(folder)) {
  if (fd_ >= 0) ::flock(fd_, LOCK_SH);
}

RunLock::~RunLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool is_running(const std::filesystem::path& folder) {
  const int fd = open_folder(folder);
  if (fd < 0) return true;
  const bool is_free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return !is_free;
}

}  // namespace ripieno
