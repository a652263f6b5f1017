#include "apps/ripieno/run_folder.h"

#include <sys/utsname.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <thread>

#include "ripieno/core/file.h"
#include "ripieno/launch/launchers.h"

namespace ripieno::program {
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

std::string run_name(const Settings& settings) {
  const std::string name = settings->run.name;
  if (name.find('/') != name.npos) {
    fail(ErrorKind::usage, "run.name = ", to_toml(settings.value("run.name")),
         " holds a /: it is part of the name of one ", "folder; run.folder says where that is made");
  }
  if (name.size() > 200) fail(ErrorKind::usage, "run.name has ", name.size(), " bytes; a folder's name can have 200");
  return name.empty() ? text(settings->strategy, "-n", settings->workers) : name;
}

}  // namespace

RunFolder RunFolder::open(const std::filesystem::path& path) {
  RunFolder folder(path);
  if (!std::filesystem::exists(folder.config()))
    fail(ErrorKind::data, path.string(), ": is no run folder: it has no config.toml");
  return folder;
}

RunFolder RunFolder::create(const Settings& settings) {
  const std::filesystem::path runs = settings->run.folder;
  if (runs.empty())
    fail(ErrorKind::usage,
         "run.folder is empty: name the folder in which run folders are made (by default runs; . is this folder)");
  const std::string tail = run_name(settings);
  create_folders(runs);
  int last = 0;
  for (const auto& entry : std::filesystem::directory_iterator(runs)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc())
      last = std::max(last, number);
  }
  for (;;) {  // mkdir settles races between runs that start at the same time
    std::ostringstream name;
    name << std::setw(4) << std::setfill('0') << ++last << '-' << tail;
    RunFolder folder(runs / name.str());
    std::error_code error;
    if (std::filesystem::create_directory(folder.path_, error)) {
      write_file(folder.config(), settings.to_toml());
      write_file(folder.path_ / "env.json", environment_json());
      return folder;
    }
    if (error) fail(ErrorKind::io, folder.path_.string(), ": cannot create the folder: ", error.message());
  }
}

std::filesystem::path RunFolder::metrics(int rank) const { return path_ / text("metrics-", rank, ".jsonl"); }
std::filesystem::path RunFolder::trace(int rank) const { return path_ / text("trace-", rank, ".json"); }
std::filesystem::path RunFolder::state(int rank) const { return path_ / text("state-", rank, ".pt"); }
std::filesystem::path RunFolder::state(int rank, std::int64_t epochs_done) const {
  return path_ / text("state-", rank, ".epoch-", epochs_done, ".pt");
}

std::string launcher() {
  const std::optional<launch::Launched> other = launch::launched();
  return other ? other->launcher : "ripieno";
}

std::string environment_json() {
  utsname system = {};
  ::uname(&system);
  const nlohmann::ordered_json json{
      {"host", system.nodename},
      {"kernel", text(system.sysname, " ", system.release)},
      {"processor", proc_value("/proc/cpuinfo", "model name")},
      {"cores", std::thread::hardware_concurrency()},
      {"memory", proc_value("/proc/meminfo", "MemTotal")},
      {"compiler", text("g++ ", __VERSION__)},
      {"libtorch", TORCH_VERSION},
      {"launcher", launcher()},
  };
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace ripieno::program
