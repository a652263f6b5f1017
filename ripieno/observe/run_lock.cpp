#include "ripieno/observe/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace ripieno::observe {
namespace {

Descriptor open_folder(const std::filesystem::path& folder) {
  return Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

// Holders take a shared lock, a test takes an exclusive one: two tests at once do not keep a holder out.
RunLock::RunLock(const std::filesystem::path& folder) : folder_(open_folder(folder)) {
  if (folder_.is_open()) ::flock(folder_.get(), LOCK_SH);
}

bool is_running(const std::filesystem::path& folder) {
  const Descriptor opened = open_folder(folder);
  return !opened.is_open() || ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace ripieno::observe
