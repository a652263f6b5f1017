// Where a data set's files are: the first of a few folders that holds a file.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace ripieno {

/// The first folder's file of this name, if any has one.
std::optional<std::filesystem::path> locate(std::span<const std::filesystem::path> folders, const std::string& file);

/// "a, b" for a message.
std::string list(std::span<const std::filesystem::path> folders);

}  // namespace ripieno
