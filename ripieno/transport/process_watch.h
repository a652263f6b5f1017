// Notices when another process of this host ends, even if something still keeps its connections open: a child that it
// forked, say.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>

#include "ripieno/core/runtime.h"

namespace ripieno::transport {

class ProcessWatch {
 public:
  /// Calls `ended` once, on the runtime's thread, when the process has ended, unless the watch is gone by then. Null
  /// where the kernel cannot tell (Linux before 5.3, or a sandbox forbids it). `process`: as this process's namespace
  /// counts.
  static std::shared_ptr<ProcessWatch> start(Runtime& runtime, pid_t process, std::function<void()> ended);

  ProcessWatch(Runtime& runtime, std::function<void()> ended) : process_(runtime.context()), ended_(std::move(ended)) {}

 private:
  asio::posix::stream_descriptor process_;
  std::function<void()> ended_;
};

}  // namespace ripieno::transport
