// Tells whether a job still works in a run's folder: its process holds a lock on the folder, which the system releases
// when the process ends, however it ends.
#pragma once

#include <filesystem>

#include "ripieno/core/descriptor.h"

namespace ripieno::observe {

class RunLock {
 public:
  /// If the file system has no locks, there is no lock, and the run counts as running until its summary exists.
  explicit RunLock(const std::filesystem::path& folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  Descriptor folder_;
};

/// Whether the lock is held, or this cannot be determined.
bool is_running(const std::filesystem::path& folder);

}  // namespace ripieno::observe
