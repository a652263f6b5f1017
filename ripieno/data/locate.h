// Finds a data set's files, under any of their usual names and forms, in any of a few folders.
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
  std::vector<std::filesystem::path> folders;  ///< searched in this order
  std::vector<std::string> names;              ///< tried in this order; messages use the first
  std::vector<std::string>
      words;           ///< in lower case; a file with all of them in its name may be the sought one in another form
  std::string advice;  ///< what to do if the file is missing
};

/// The path of the file, plain or with .gz after its name, or inside a folder with its name. Throws Error(data), which
/// names the folders and files that may be it in another form, if there is none, and Error(io) if a folder cannot be
/// read.
std::filesystem::path locate(const SoughtFile& file);

/// "a, b", for messages.
std::string list(std::span<const std::filesystem::path> folders);

/// What a file that is no data seems to be, by its first bytes: "a web page (HTML)", "a zip archive", ...; else "".
std::string kind_of(std::string_view first);

/// The file's first bytes, up to 64. Throws as RandomAccessFile.
std::string first_bytes(const std::filesystem::path& path);

}  // namespace ripieno::data
