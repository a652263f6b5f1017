#include "ripieno/data/locate.h"

#include "ripieno/core/error.h"

namespace ripieno {

std::optional<std::filesystem::path> locate(std::span<const std::filesystem::path> folders, const std::string& file) {
  for (const auto& folder : folders) {
    std::error_code error;  // a folder that cannot be looked into holds no file for us
    if (std::filesystem::is_regular_file(folder / file, error)) return folder / file;
  }
  return std::nullopt;
}

std::string list(std::span<const std::filesystem::path> folders) {
  std::string all;
  for (const auto& folder : folders) all += text(all.empty() ? "" : ", ", folder.empty() ? "." : folder.string());
  return all;
}

}  // namespace ripieno
