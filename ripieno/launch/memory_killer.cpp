#include "ripieno/launch/memory_killer.h"

#include <iomanip>
#include <sstream>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"

namespace ripieno::launch {
namespace {

namespace fs = std::filesystem;

/// "" where it cannot be read.
std::string text_of(const fs::path& file) {
  try {
    return read_file(file);
  } catch (const Error&) {
    return {};
  }
}

/// The number after a word at the beginning of a line.
std::optional<std::uint64_t> number_in(const fs::path& file, const std::string& word) {
  std::istringstream lines(text_of(file));
  std::string first;
  std::uint64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    if (words >> first >> number && first == word) return number;
  }
  return std::nullopt;
}

/// "0::/user.slice/a" is of version 2, "4:memory:/a" of version 1.
std::optional<std::uint64_t> of_group(const fs::path& proc, const fs::path& groups) {
  std::istringstream lines(text_of(proc / "self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos || second + 1 >= line.size()) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 2);  // without its first slash
    std::optional<std::uint64_t> found;
    if (controllers == ",,") found = number_in(groups / group / "memory.events", "oom_kill");
    if (controllers.find(",memory,") != controllers.npos)
      found = number_in(groups / "memory" / group / "memory.oom_control", "oom_kill");
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> memory_kills(const fs::path& proc, const fs::path& groups) {
  const std::optional<std::uint64_t> own = of_group(proc, groups);
  return own ? own : number_in(proc / "vmstat", "oom_kill");
}

std::string memory_hint(std::optional<std::uint64_t> before, std::optional<std::uint64_t> now,
                        std::uint64_t peak_bytes) {
  std::ostringstream peak;
  if (peak_bytes > 0)
    peak << "it had " << std::setprecision(2) << std::fixed << 1e-9 * static_cast<double>(peak_bytes)
         << " GB of memory at most";
  if (before && now && *now > *before) {
    return text(
        " (by the kernel's memory killer, it seems, which has ended ", *now - *before,
        *now - *before == 1 ? " process" : " processes", " meanwhile", peak_bytes > 0 ? ": " : "", peak.str(),
        "; start fewer workers on this machine, take smaller batches or a smaller model, or allow the job more)");
  }
  return peak_bytes > 0 && !(before && now) ? " (" + peak.str() + ")" : "";
}

}  // namespace ripieno::launch
