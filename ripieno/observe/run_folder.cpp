#include "ripieno/observe/run_folder.h"

#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"

namespace ripieno::observe {
namespace {

/// The value of the first "key : value" line of a /proc file.
std::string proc_value(const std::string& file, const std::string& key) {
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind(key, 0) != 0 || colon == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

}  // namespace

bool RunFolder::is_one(const std::filesystem::path& path) {
  const RunFolder folder(path);
  return std::filesystem::exists(folder.config()) || std::filesystem::exists(folder.loop());
}

RunFolder RunFolder::create(const std::filesystem::path& runs, const std::string& name, const std::string& key) {
  if (name.find('/') != name.npos) {
    fail(ErrorKind::usage, key, " = \"", name, "\" holds a /: it is part of the name of one folder, which is made in ",
         runs.string());
  }
  if (name.size() > 200) fail(ErrorKind::usage, key, " has ", name.size(), " bytes; a folder's name can have 200");
  create_folders(runs);
  int last = 0;
  for (const auto& entry : std::filesystem::directory_iterator(runs)) {
    const std::string present = entry.path().filename().string();
    int number = 0;
    if (std::from_chars(present.data(), present.data() + present.size(), number).ec == std::errc())
      last = std::max(last, number);
  }
  for (;;) {  // mkdir settles races between runs that start at the same time
    std::ostringstream numbered;
    numbered << std::setw(4) << std::setfill('0') << ++last << '-' << name;
    RunFolder folder(runs / numbered.str());
    std::error_code error;
    if (std::filesystem::create_directory(folder.path_, error)) return folder;
    if (error) fail(ErrorKind::io, folder.path_.string(), ": cannot create the folder: ", error.message());
  }
}

namespace {

/// Whether a step of the run itself, not of the one that it goes on from, is in a rank's metrics.
bool has_step(const std::filesystem::path& metrics) {
  std::istringstream lines(read_file(metrics));
  std::string line;
  std::size_t earlier = 0;
  if (std::getline(lines, line)) {
    const auto start = nlohmann::json::parse(line, nullptr, false);
    if (start.is_object()) earlier = start.value("earlier_lines", std::size_t{0});
  }
  while (std::getline(lines, line)) {
    if (earlier > 0) {
      --earlier;
    } else if (line.starts_with(R"({"type":"step")") || line.starts_with(R"({"type":"end")")) {
      return true;
    }
  }
  return false;
}

}  // namespace

void RunFolder::remove_if_nothing_came(const std::filesystem::path& path) noexcept {
  try {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      const bool is_kept = name.starts_with("state-") || name == "model.pt" || name == "summary.json";
      if (is_kept || (name.starts_with("metrics-") && has_step(entry.path()))) return;
    }
    std::filesystem::remove_all(path);
  } catch (const std::exception&) {  // the error that ended the run is told instead
  }
}

std::filesystem::path RunFolder::metrics(int rank) const { return path_ / text("metrics-", rank, ".jsonl"); }
std::filesystem::path RunFolder::trace(int rank) const { return path_ / text("trace-", rank, ".json"); }
std::filesystem::path RunFolder::state(int rank) const { return path_ / text("state-", rank, ".pt"); }
std::filesystem::path RunFolder::state(int rank, std::uint32_t epochs, std::uint32_t steps) const {
  return path_ / text("state-", rank, ".epoch-", epochs, steps > 0 ? text("-step-", steps) : "", ".pt");
}

std::string environment_json(const std::string& libtorch, const std::string& launcher) {
  utsname system = {};
  ::uname(&system);
  const nlohmann::ordered_json json{
      {"host", system.nodename},
      {"kernel", text(system.sysname, " ", system.release)},
      {"processor", proc_value("/proc/cpuinfo", "model name")},
      {"cores", std::thread::hardware_concurrency()},
      {"memory", proc_value("/proc/meminfo", "MemTotal")},
      {"compiler", text("g++ ", __VERSION__)},
      {"libtorch", libtorch},
      {"launcher", launcher},
  };
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace ripieno::observe
