#include "ripieno/core/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "ripieno/core/error.h"

namespace ripieno {
namespace {

[[noreturn]] void fail_io(const std::filesystem::path& path, const char* doing) {
  fail(ErrorKind::io, path.string(), ": cannot ", doing, ": ", std::generic_category().message(errno));
}

constexpr std::string_view unfinished = ".unfinished-";
constexpr std::size_t unfinished_digits = 6;  // digits after the mark
constexpr mode_t new_mode = 0666;             // of files, but for what the user's umask takes away
constexpr const char* descriptors = "/proc/self/fd/";

/// A file that takes its place once it is complete. Until then it has no name, if the file system supports that, so
/// that a killed writer leaves nothing. Else its name marks it as unfinished, and it is locked as long as its writer
/// lives.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : path_(path) {
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (::access(descriptors, X_OK) == 0)  // else it could get no name later
      file_ = Descriptor(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, new_mode));
    for (int n = ::getpid(); !file_.is_open(); ++n) {
      name_ = unfinished_name(n);
      file_ = Descriptor(::open(name_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, new_mode));
      if (file_.is_open() || errno == EEXIST) continue;
      name_.clear();
      fail_io(path, "create");
    }
    ::flock(file_.get(), LOCK_EX | LOCK_NB);
  }
  ~NewFile() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view content) {
    write_all(file_.get(), content, path_);
    if (!name_.empty() && ::fsync(file_.get()) != 0)
      fail_io(path_, "write");  // a network file system reports only now that it is full
  }

  void take_place() {
    if (name_.empty() && link(path_)) return;
    for (int n = ::getpid(); name_.empty(); ++n) {
      const std::string name = unfinished_name(n);
      if (link(name)) name_ = name;
    }
    if (::rename(name_.c_str(), path_.c_str()) != 0) fail_io(path_, "replace");
    name_.clear();
  }

 private:
  std::string unfinished_name(int n) const {
    const std::string zeros(unfinished_digits, '0'), number = zeros + std::to_string(n);
    return text(path_.string(), unfinished, number.substr(number.size() - unfinished_digits));
  }

  /// Gives the file a name; false if that name exists already.
  bool link(const std::filesystem::path& name) {
    const std::string here = text(descriptors, file_.get());
    if (::linkat(AT_FDCWD, here.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
    if (errno != EEXIST) fail_io(path_, "create");
    return false;
  }

  std::filesystem::path path_;
  Descriptor file_;
  std::string name_;  ///< its temporary name, if it has one
};

}  // namespace

void write_all(int descriptor, std::string_view content, const std::filesystem::path& name) {
  while (!content.empty()) {
    const ssize_t n = ::write(descriptor, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(name, "write");
    content.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string read_file(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail_io(path, "open");
  std::string content;
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path, "read");
    if (n == 0) return content;
    content.append(block, static_cast<std::size_t>(n));
  }
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  struct stat status = {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  const bool keeps_content = S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
  if (exists && !keeps_content) return write_value(path, content);  // e.g. /dev/stdout
  std::error_code error;
  NewFile file(exists && std::filesystem::is_symlink(path, error) ? std::filesystem::canonical(path) : path);
  file.write(content);
  file.take_place();
}

void remove_unfinished(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.rfind(unfinished);
    if (at == std::string::npos || at + unfinished.size() + unfinished_digits != name.size()) continue;
    const Descriptor file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
  }
}

void write_value(const std::filesystem::path& path, std::string_view value) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open()) fail_io(path, "open");
  write_all(file.get(), value, path);
}

void create_folders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(ErrorKind::io, path.string(), ": cannot create the folder: ", error.message());
}

RandomAccessFile::RandomAccessFile(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status = {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0) {
    const int error = errno;
    fail(error == ENOENT ? ErrorKind::data : ErrorKind::io, path_.string(),
         ": cannot open: ", std::generic_category().message(error));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void RandomAccessFile::read(std::uint64_t offset, Bytes into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = ::pread(file_.get(), into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      fail(ErrorKind::data, path_.string(), ": cannot read at offset ", offset + done, ": ",
           std::generic_category().message(errno));
    if (n == 0) {
      fail(ErrorKind::data, path_.string(), ": ends at ", offset + done, " where ", into.size(), " bytes from offset ",
           offset, " are needed; the file is truncated");
    }
    bytes_read_ += static_cast<std::uint64_t>(n);
    done += static_cast<std::size_t>(n);
  }
}

LineFile::LineFile(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, new_mode)) {
  if (!file_.is_open()) fail_io(path_, "create");
}

LineFile::~LineFile() {
  try {
    flush();
  } catch (...) {  // a destructor cannot throw; call flush() before to get the error
  }
}

void LineFile::append(std::string_view line) {
  if (error_) std::rethrow_exception(error_);
  pending_.append(line);
  pending_.push_back('\n');
  if (pending_.size() >= (1u << 16)) flush();
}

void LineFile::flush() {
  if (error_) std::rethrow_exception(error_);
  std::string lines;
  lines.swap(pending_);
  try {
    write_all(file_.get(), lines, path_);
  } catch (...) {
    error_ = std::current_exception();
    throw;
  }
}

}  // namespace ripieno
