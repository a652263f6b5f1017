#include "ripieno/transport/process_watch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "ripieno/core/descriptor.h"

namespace ripieno::transport {
namespace {

/// Readable once the process has ended; closed at an exec, as the kernel makes it.
Descriptor descriptor_of(pid_t process) { return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))); }

}  // namespace

std::shared_ptr<ProcessWatch> ProcessWatch::start(Runtime& runtime, pid_t process, std::function<void()> ended) {
  const auto watch = std::make_shared<ProcessWatch>(runtime, std::move(ended));
  auto tell = [weak = std::weak_ptr(watch)](asio::error_code error = {}) {
    const auto there = weak.lock();
    if (there && !error) there->ended_();
  };
  Descriptor found = descriptor_of(process);
  if (!found.is_open() && errno == ESRCH) {
    asio::post(runtime.context(), tell);
    return watch;
  }
  asio::error_code error;
  if (found.is_open()) watch->process_.assign(found.get(), error);
  if (!found.is_open() || error) return nullptr;
  static_cast<void>(found.release());
  watch->process_.async_wait(asio::posix::stream_descriptor::wait_read, tell);
  return watch;
}

}  // namespace ripieno::transport
