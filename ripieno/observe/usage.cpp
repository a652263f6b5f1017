#include "ripieno/observe/usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"

namespace ripieno::observe {
namespace {

/// The content of a file of /proc; "" if it is missing.
std::string text_of(const char* path) {
  try {
    return read_file(path);
  } catch (const Error&) {
    return "";
  }
}

/// The bytes in the line "NAME: 123 kB" of a file of /proc.
std::uint64_t bytes_in(const char* path, const std::string& name) {
  std::istringstream lines(text_of(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name + ":", 0) != 0) continue;
    std::istringstream rest(line.substr(name.size() + 1));
    std::uint64_t kilobytes = 0;
    rest >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// The value below `name` in two lines "Tcp: NAME NAME ..", "Tcp: VALUE VALUE ..".
std::uint64_t below(std::string_view text, const std::string& prefix, const std::string& name) {
  std::istringstream lines{std::string(text)};
  std::string names, values;
  while (std::getline(lines, names)) {
    if (!names.starts_with(prefix) || !std::getline(lines, values)) continue;
    std::istringstream a(names), b(values);
    for (std::string key, value; a >> key && b >> value;) {
      if (key == name) return std::stoull(value);
    }
  }
  return 0;
}

}  // namespace

std::uint64_t proportional_memory() { return bytes_in("/proc/self/smaps_rollup", "Pss"); }

std::uint64_t peak_resident_memory() { return bytes_in("/proc/self/status", "VmHWM"); }

CpuSeconds cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return {seconds(used.ru_utime), seconds(used.ru_stime)};
}

ProcessUsage process_usage() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::uint64_t total_pages = 0, resident_pages = 0;
  std::istringstream(text_of("/proc/self/statm")) >> total_pages >> resident_pages;
  return {{seconds(used.ru_utime), seconds(used.ru_stime)},
          resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)),
          static_cast<std::uint64_t>(used.ru_nvcsw),
          static_cast<std::uint64_t>(used.ru_nivcsw)};
}

MachineUsage machine_usage() { return machine_usage(text_of("/proc/stat"), static_cast<double>(sysconf(_SC_CLK_TCK))); }

MachineUsage machine_usage(std::string_view proc_stat, double ticks_a_second) {
  std::istringstream line{std::string(proc_stat.substr(0, proc_stat.find('\n')))};
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft_interrupts = 0, stolen = 0;
  line >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >> stolen;
  return {(user + nice) / ticks_a_second, (system + interrupts + soft_interrupts) / ticks_a_second,
          (idle + waiting) / ticks_a_second, stolen / ticks_a_second};
}

std::string network_namespace() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/net", error).string();
}

NetworkUsage network_usage() { return network_usage(text_of("/proc/self/net/dev"), text_of("/proc/self/net/snmp")); }

NetworkUsage network_usage(std::string_view proc_net_dev, std::string_view proc_net_snmp) {
  NetworkUsage usage;
  std::istringstream lines{std::string(proc_net_dev)};
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;  // the two title lines
    const std::string name = line.substr(line.find_first_not_of(' '), colon - line.find_first_not_of(' '));
    std::istringstream values(line.substr(colon + 1));
    std::uint64_t received = 0, packets_received = 0, sent = 0, packets_sent = 0, other = 0;
    values >> received >> packets_received;
    for (int i = 0; i < 6; ++i) values >> other;
    values >> sent >> packets_sent;
    InterfaceUsage& sum = name == "lo" ? usage.loopback : usage.network;
    sum.bytes_sent += sent;
    sum.bytes_received += received;
    sum.packets_sent += packets_sent;
    sum.packets_received += packets_received;
  }
  usage.retransmits = below(proc_net_snmp, "Tcp:", "RetransSegs");
  return usage;
}

}  // namespace ripieno::observe
