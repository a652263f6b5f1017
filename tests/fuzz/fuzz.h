// What every target does with bytes from outside: they may be refused, in a sentence. All else, a crash, a hang, a
// sanitizer's report, an exception of another kind or an Error(internal), is found.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ripieno/core/error.h"

namespace ripieno::fuzz {

/// Calls `use`, which may refuse.
template <class Use>
void take_or_refuse(Use use) {
  try {
    use();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
  }
}

/// A file in memory that holds these bytes.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    require(fd_ >= 0 && ::write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "no file in memory");
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }
  std::string path() const { return text("/proc/self/fd/", fd_); }

 private:
  int fd_;
};

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace ripieno::fuzz
