#include "ripieno/core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace ripieno {
namespace {

[[noreturn]] void fail_io(const std::filesystem::path& path, const char* doing) {
  fail(ErrorKind::io, path.string(), ": cannot ", doing, ": ", std::strerror(errno));
}

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path, "write");
    content.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// Closes on every way out.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail_io(path, "open");
  std::string content;
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path, "read");
    if (n == 0) return content;
    content.append(block, static_cast<std::size_t>(n));
  }
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::string temporary = path.string() + ".XXXXXX";  // mkstemp's pattern: unique among threads, processes and hosts
  {
    Descriptor file{::mkostemp(temporary.data(), O_CLOEXEC)};
    if (file.fd < 0) fail_io(path, "create");
    try {
      write_all(file.fd, content, path);
      if (::fchmod(file.fd, 0644) != 0) fail_io(path, "set the permissions of");
    } catch (...) {
      ::unlink(temporary.c_str());
      throw;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    ::unlink(temporary.c_str());
    fail_io(path, "replace");
  }
}

void write_value(const std::filesystem::path& path, std::string_view value) {
  Descriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  if (file.fd < 0) fail_io(path, "open");
  write_all(file.fd, value, path);
}

void create_folders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(ErrorKind::io, path.string(), ": cannot create the folder: ", error.message());
}

RandomAccessFile::RandomAccessFile(std::filesystem::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status = {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
    fail(ErrorKind::data, path_.string(), ": cannot open: ", std::strerror(errno));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(other.fd_), size_(other.size_), bytes_read_(other.bytes_read_) {
  other.fd_ = -1;
}

RandomAccessFile::~RandomAccessFile() {
  if (fd_ >= 0) ::close(fd_);
}

void RandomAccessFile::read(std::uint64_t offset, Bytes into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = ::pread(fd_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ErrorKind::data, path_.string(), ": cannot read at offset ", offset + done, ": ", std::strerror(errno));
    if (n == 0) {
      fail(ErrorKind::data, path_.string(), ": ends at ", offset + done, " where ", into.size(), " bytes from offset ",
           offset, " are needed; the file is truncated");
    }
    bytes_read_ += static_cast<std::uint64_t>(n);
    done += static_cast<std::size_t>(n);
  }
}

LineFile::LineFile(std::filesystem::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail_io(path_, "create");
}

LineFile::~LineFile() {
  try {
    flush();
  } catch (...) {  // a destructor has nobody to tell; flush() called before has told
  }
  ::close(fd_);
}

void LineFile::append(std::string_view line) {
  pending_.append(line);
  pending_.push_back('\n');
  if (pending_.size() >= (1u << 16)) flush();
}

void LineFile::flush() {
  std::string lines;
  lines.swap(pending_);
  write_all(fd_, lines, path_);
}

}  // namespace ripieno
