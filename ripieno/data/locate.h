// Where a data set's files are, and in which form: what was asked for under any of the names it goes by, in any of a
// few folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::data {

struct SoughtFile {
  const char* dataset;                         ///< for messages
  std::vector<std::filesystem::path> folders;  ///< the first that has it counts
  std::vector<std::string> names;  ///< the first that is there counts; the first is what it is called in messages
  std::vector<std::string> words;  ///< in lower case; what has them all in its name may be the file in another form
  std::string advice;              ///< what to do where it is missing
};

/// The file, plain or with .gz after its name, or in a folder of its own name. Throws Error(data) where there is none,
/// which names the folders and what may be it in another form, and Error(io) where a folder cannot be looked into.
std::filesystem::path locate(const SoughtFile& file);

/// "a, b" for a message.
std::string list(std::span<const std::filesystem::path> folders);

/// What a file's first bytes show it to be, where that is no data: "a web page (HTML)", "a zip archive", ...; "" else.
std::string kind_of(std::string_view first);

/// The file's first bytes, up to 64. Throws as RandomAccessFile.
std::string first_bytes(const std::filesystem::path& path);

}  // namespace ripieno::data
