// Files, with errors that name the path. The only way in which Ripieno writes files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include "ripieno/core/descriptor.h"
#include "ripieno/core/span.h"

namespace ripieno {

/// The whole file. Throws Error(io) that names the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

/// Replaces the file as a whole: readers see the old or the new content, never half, and a writer that is killed leaves
/// nothing, but for what remove_unfinished() removes. What is no file but a device or a pipe is written to. Throws
/// Error(io).
void write_file(const std::filesystem::path& path, std::string_view content);

/// Removes what writers that were killed left in the folder, where its file system knows no files without a name.
void remove_unfinished(const std::filesystem::path& folder);

/// Writes all of it to an open descriptor, which errors call by this name. Throws Error(io).
void write_all(int descriptor, std::string_view content, const std::filesystem::path& name);

/// Writes into a file that is there and stays what it is, as those of the kernel. Throws Error(io).
void write_value(const std::filesystem::path& path, std::string_view value);

/// Creates the folder and its parents. Throws Error(io).
void create_folders(const std::filesystem::path& path);

/// A file open for reading at any offset, which counts what it reads.
class RandomAccessFile {
 public:
  /// Throws Error(data) that names the path where there is none, Error(io) where it cannot be opened.
  explicit RandomAccessFile(std::filesystem::path path);
  RandomAccessFile(RandomAccessFile&&) noexcept = default;
  RandomAccessFile& operator=(RandomAccessFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  /// Bytes that pread has returned so far.
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// Fills `into` from `offset`. Throws Error(data) with path, offset and both lengths when the file ends before.
  void read(std::uint64_t offset, Bytes into);

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
  std::uint64_t bytes_read_ = 0;
};

/// Appends whole lines to a file, created anew. Each line is complete in the file once flush() has returned. All throw
/// Error(io); after an error nothing more is written, and every further call throws it again.
class LineFile {
 public:
  explicit LineFile(std::filesystem::path path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  void append(std::string_view line);
  void flush();

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::string pending_;
  std::exception_ptr error_;
};

}  // namespace ripieno
