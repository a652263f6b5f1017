// Files, with errors that name the path. Ripieno writes files only through these functions.
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

/// Replaces the file as a whole: readers see the old or the new content, never a part, and a killed writer leaves
/// nothing except files that remove_unfinished() removes. A device or pipe is written to directly. Throws Error(io).
void write_file(const std::filesystem::path& path, std::string_view content);

/// Removes files that killed writers left in the folder; there are such files only on file systems without unnamed
/// files.
void remove_unfinished(const std::filesystem::path& folder);

/// Writes all of `content` to an open descriptor, which errors call `name`. Throws Error(io).
void write_all(int descriptor, std::string_view content, const std::filesystem::path& name);

/// Writes into an existing file without replacing it, e.g. one of the kernel's. Throws Error(io).
void write_value(const std::filesystem::path& path, std::string_view value);

/// Creates the folder and its parents. Throws Error(io).
void create_folders(const std::filesystem::path& path);

/// A file open for reading at any offset, which counts what it reads.
class RandomAccessFile {
 public:
  /// Throws, with the path, Error(data) if there is no such file, and Error(io) if it cannot be opened.
  explicit RandomAccessFile(std::filesystem::path path);
  RandomAccessFile(RandomAccessFile&&) noexcept = default;
  RandomAccessFile& operator=(RandomAccessFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  /// Bytes that pread has returned so far.
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// Fills `into` from `offset`. Throws Error(data) with path, offset and both lengths if the file ends earlier.
  void read(std::uint64_t offset, Bytes into);

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
  std::uint64_t bytes_read_ = 0;
};

/// Appends whole lines to a newly created file. Each line is complete in the file once flush() has returned. All
/// functions throw Error(io); after an error nothing more is written, and every further call throws it again.
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
