// Whether a job still works in a run's folder: whoever runs it holds a lock on the folder, which the system takes back
// when that process ends, however it ends.
#pragma once

#include <filesystem>

#include "ripieno/core/descriptor.h"

namespace ripieno::program {

class RunLock {
 public:
  /// Where the file system has no locks nothing is held, and the run counts as running until its summary is there.
  explicit RunLock(const std::filesystem::path& folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  Descriptor folder_;
};

/// Whether somebody holds it, or it cannot be told.
bool is_running(const std::filesystem::path& folder);

}  // namespace ripieno::program
