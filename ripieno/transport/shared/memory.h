// Memory that processes of one host share: anonymous files (memfd), which other processes open through /proc/PID/fd.
// They have no names, so nothing is left behind, however a process ends. They are sealed, so that nobody can shrink one
// while others read it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "ripieno/core/descriptor.h"
#include "ripieno/core/span.h"

namespace ripieno::transport {

/// Descriptor `fd` of process `pid`, reopened with `flags`. Error(network): it cannot be opened.
Descriptor open_of(pid_t pid, int fd, int flags);

/// A mapping; the maker also holds the file behind it.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// Makes zeroed memory in whole pages. Error(network): the kernel has none.
  static SharedMemory make(std::size_t bytes);
  /// Maps `bytes` from `offset` (at a page) on of memory that another process has made. Error(network): it cannot be
  /// opened, is smaller or could be shrunk.
  enum class Access : std::uint8_t { read, write };
  static SharedMemory open(pid_t pid, int fd, std::size_t offset, std::size_t bytes, Access access);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return file_.get(); }

  /// Asks the kernel to keep [data, data + bytes), extended to whole pages of 2 MiB, in such large pages, whatever the
  /// system's settings: fewer page lookups and more prefetching. Contents do not change.
  void use_large_pages(std::byte* data, std::size_t bytes);
  /// Zeroes [data, data + bytes) of this mapping; whole pages go back to the kernel.
  void clear(std::byte* data, std::size_t bytes);

 private:
  Descriptor file_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

inline constexpr std::size_t page_bytes = 4096, large_page_bytes = 2 << 20;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace ripieno::transport
