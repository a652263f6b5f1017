#include "ripieno/launch/starter.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"

namespace ripieno::launch {
namespace {

/// nullopt: this user cannot read it, or the process has ended.
std::optional<std::string> file_of(pid_t pid, const char* name) {
  try {
    return read_file(text("/proc/", pid, "/", name));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// 0: there is none, or it is not known.
pid_t parent_of(pid_t pid) {
  const std::string stat = file_of(pid, "stat").value_or("");
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));  // after the program's name
  std::string state;
  pid_t parent = 0;
  fields >> state >> parent;
  return parent;
}

/// `environment`: "NAME=VALUE", each with a zero at its end.
bool has(const std::string& environment, const std::pair<std::string, std::string>& variable) {
  const std::string entry = text('\0', variable.first, '=', variable.second, '\0');
  return (std::string(1, '\0') + environment).find(entry) != std::string::npos;
}

}  // namespace

pid_t starter(const std::vector<std::pair<std::string, std::string>>& variables) {
  for (pid_t pid = ::getppid(); pid > 1; pid = parent_of(pid)) {
    const std::optional<std::string> environment = file_of(pid, "environ");
    if (!environment || environment->empty()) continue;  // of another user, or the kernel's
    const auto is_there = [&](const auto& variable) { return has(*environment, variable); };
    if (!std::all_of(variables.begin(), variables.end(), is_there)) return pid;
  }
  return ::getppid();
}

}  // namespace ripieno::launch
