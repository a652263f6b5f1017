#include "ripieno/transport/shared/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace ripieno::transport {
namespace {

constexpr int madv_collapse = 25;              // MADV_COLLAPSE of Linux 6.1 and later, which glibc 2.36 does not name
constexpr std::size_t worth_a_call = 1 << 20;  // bytes; overwriting fewer is faster than giving them back

[[noreturn]] void refuse(const std::string& what) {
  const int why = errno;
  fail(ErrorKind::network, what, ": ", std::generic_category().message(why));
}

/// A free range of addresses that starts at a large page; null if there is none.
void* aligned_place(std::size_t bytes) {
  void* const room =
      ::mmap(nullptr, bytes + large_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  ::munmap(room, bytes + large_page_bytes);
  return reinterpret_cast<void*>(round_up(reinterpret_cast<std::uintptr_t>(room), large_page_bytes));
}

std::byte* map(int fd, std::size_t offset, std::size_t bytes, int protection) {
  void* const wanted =
      bytes < large_page_bytes ? nullptr : aligned_place(bytes);  // at other addresses its pages are small
  void* data = ::mmap(wanted, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) refuse(text("cannot map ", bytes, " bytes of shared memory"));
  return static_cast<std::byte*>(data);
}

}  // namespace

Descriptor open_of(pid_t pid, int fd, int flags) {
  const std::string path = text("/proc/", pid, "/fd/", fd);
  Descriptor opened(::open(path.c_str(), flags | O_CLOEXEC));
  if (!opened.is_open()) refuse(path);
  return opened;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_) ::munmap(data_, size_);
}

SharedMemory SharedMemory::make(std::size_t bytes) {
  SharedMemory memory;
  const std::size_t size = round_up(bytes, page_bytes);
  memory.file_ = Descriptor(::memfd_create("ripieno", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.file_.is_open() || ::ftruncate(memory.file_.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(memory.file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    refuse(text("cannot make ", size, " bytes of shared memory"));
  }
  memory.data_ = map(memory.file_.get(), 0, size, PROT_READ | PROT_WRITE);
  memory.size_ = size;
  return memory;
}

SharedMemory SharedMemory::open(pid_t pid, int fd, std::size_t offset, std::size_t bytes, Access access) {
  const bool write = access == Access::write;
  const Descriptor file = open_of(pid, fd, write ? O_RDWR : O_RDONLY);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) refuse("cannot ask for the size of a peer's memory");
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || offset > size || bytes > size - offset) {
    fail(ErrorKind::network, "/proc/", pid, "/fd/", fd, " is not ", bytes, " bytes of sealed shared memory from ",
         offset, " on");
  }
  SharedMemory memory;
  memory.data_ = map(file.get(), offset, bytes, write ? PROT_READ | PROT_WRITE : PROT_READ);
  memory.size_ = bytes;
  return memory;
}

void SharedMemory::use_large_pages(std::byte* data, std::size_t bytes) {
  const auto begin = static_cast<std::size_t>(data - data_);
  const std::size_t first = begin / large_page_bytes * large_page_bytes;
  const std::size_t last =
      std::min(round_up(begin + bytes, large_page_bytes), size_ / large_page_bytes * large_page_bytes);
  if (first >= last) return;
  for (std::size_t at = first; at < last; at += large_page_bytes) {
    ::madvise(data_ + at, page_bytes, MADV_POPULATE_READ);  // madvise would skip untouched pages
  }
  ::madvise(data_ + first, last - first, madv_collapse);  // older kernels refuse
}

void SharedMemory::clear(std::byte* data, std::size_t bytes) {
  const auto begin = static_cast<std::size_t>(data - data_), end = begin + bytes;
  const std::size_t first = round_up(begin, page_bytes), last = end / page_bytes * page_bytes;
  if (bytes >= worth_a_call && first < last &&
      ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                  static_cast<off_t>(last - first)) == 0) {
    std::memset(data, 0, first - begin);
    std::memset(data_ + last, 0, end - last);
  } else {
    std::memset(data, 0, bytes);
  }
}

}  // namespace ripieno::transport
