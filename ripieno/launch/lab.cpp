#include "ripieno/launch/lab.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "ripieno/core/file.h"
#include "ripieno/launch/process.h"

namespace ripieno::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_of_all = "ripieno-lab-";  // ripieno-lab-PID-0, ..., ripieno-lab-PID-switch
constexpr const char* interface = "link0";                // a node's, in its namespace
constexpr double queue_s = 0.1;                           // the length of a full link's queue, at its rate
constexpr int most_nodes = 200;

template <class... Words>
void ip(const Words&... words) {
  run_tool({"ip", text(words)...});
}

/// In a namespace.
template <class... Words>
void ip_in(const std::string& network, const Words&... words) {
  run_tool({"ip", "-n", network, text(words)...});
}

std::string address_of(int index) { return text("10.79.0.", index + 1); }

/// The launcher's process id in a namespace's or a group's name; none where it is not a lab's.
std::optional<pid_t> launcher_of(const std::string& name) {
  if (!name.starts_with(name_of_all)) return {};
  pid_t pid = 0;
  const char* begin = name.data() + name_of_all.size();
  if (std::from_chars(begin, name.data() + name.size(), pid).ec != std::errc()) return {};
  return pid;
}

bool is_running(pid_t pid) { return fs::exists(text("/proc/", pid)); }

/// Folders in which control groups that limit the CPU can be made: of version 2, else of version 1.
std::optional<fs::path> root_of_groups() {
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    const fs::path controllers = fs::path(root) / "cgroup.subtree_control";
    if (fs::exists(controllers) && read_file(controllers).find("cpu") != std::string::npos && ::access(root, W_OK) == 0)
      return root;
  }
  for (const char* root : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    if (fs::exists(fs::path(root) / "cpu.cfs_quota_us") || fs::exists(fs::path(root) / "cgroup.procs")) {
      if (::access(root, W_OK) == 0) return root;
    }
  }
  return {};
}

void limit_rate(const std::string& network, const std::string& device, double mbit_s) {
  const double bytes_a_second = mbit_s * 1e6 / 8;
  const auto burst = static_cast<std::int64_t>(burst_of_lab(mbit_s));
  const auto limit = burst + static_cast<std::int64_t>(bytes_a_second * queue_s);
  run_tool({"tc", "-n", network, "qdisc", "add", "dev", device, "root", "tbf", "rate",
            text(std::llround(mbit_s * 1e6), "bit"), "burst", text(burst), "limit", text(limit)});
}

}  // namespace

std::size_t burst_of_lab(double mbit_s) {
  return static_cast<std::size_t>(std::max(66000.0, mbit_s * 1e6 / 8 * 0.002));
}

Lab::Lab(const LabOptions& options) : prefix_(text(name_of_all, ::getpid(), "-")), switch_(prefix_ + "switch") {
  if (const std::string why = impossible(); !why.empty())
    fail(ErrorKind::usage, "a lab's nodes need network namespaces: ", why);
  if (options.nodes < 1 || options.nodes > most_nodes)
    fail(ErrorKind::usage, "a lab of ", options.nodes, " nodes; from 1 to ", most_nodes, " are possible");
  clean();
  try {
    make(options);
  } catch (...) {
    take_down();
    throw;
  }
}

Lab::~Lab() { take_down(); }

std::string Lab::address() const { return address_of(most_nodes); }

void Lab::make(const LabOptions& options) {
  ip("netns", "add", switch_);
  ip_in(switch_, "link", "add", "bridge", "type", "bridge");
  ip_in(switch_, "addr", "add", address() + "/24", "dev", "bridge");
  for (const char* device : {"lo", "bridge"}) ip_in(switch_, "link", "set", "dev", device, "up");
  for (int i = 0; i < options.nodes; ++i) {
    const LabNode node{text(prefix_, i), address_of(i), {}};
    const std::string port = text("port", i);
    ip("netns", "add", node.network);
    nodes_.push_back(node);
    ip_in(switch_, "link", "add", port, "type", "veth", "peer", "name", interface, "netns", node.network);
    ip_in(node.network, "addr", "add", node.address + "/24", "dev", interface);
    // Packets as on a wire, so that they can be counted.
    run_tool(
        {"ip", "netns", "exec", node.network, "ethtool", "-K", interface, "tso", "off", "gso", "off", "gro", "off"});
    run_tool({"ip", "netns", "exec", switch_, "ethtool", "-K", port, "tso", "off", "gso", "off", "gro", "off"});
    for (const char* device : {"lo", interface}) ip_in(node.network, "link", "set", "dev", device, "up");
    ip_in(switch_, "link", "set", "dev", port, "master", "bridge", "up");
    if (options.mbit_s > 0) {
      limit_rate(node.network, interface, options.mbit_s);
      limit_rate(switch_, port, options.mbit_s);
    }
  }
  if (options.cpu > 0) limit_cpu(options.cpu);
}

void Lab::limit_cpu(double cores) {
  const auto root = root_of_groups();
  if (!root) {
    without_cpu_ = "no control groups are writable here";
    return;
  }
  constexpr int period_us = 20'000;
  for (LabNode& node : nodes_) {
    const fs::path group = *root / node.network;
    std::error_code error;
    fs::create_directory(group, error);
    if (error) {
      without_cpu_ = text(group.string(), ": ", error.message());
      return;
    }
    groups_.push_back(group);
    try {
      const auto quota = std::llround(cores * period_us);
      if (fs::exists(group / "cpu.max")) {
        write_value(group / "cpu.max", text(quota, " ", period_us));
      } else {
        write_value(group / "cpu.cfs_period_us", text(period_us));
        write_value(group / "cpu.cfs_quota_us", text(quota));
      }
    } catch (const Error& failed) {
      without_cpu_ = failed.what();
      return;
    }
    node.groups.push_back(group);
  }
}

void Lab::take_down() {
  const auto quietly = [](auto work) {
    try {
      work();
    } catch (const Error&) {  // clean() tries again later
    }
  };
  for (const LabNode& node : nodes_) quietly([&] { ip("netns", "del", node.network); });
  quietly([&] { ip("netns", "del", switch_); });
  std::error_code ignored;
  for (const fs::path& group : groups_) fs::remove(group, ignored);
}

std::string Lab::impossible() {
  if (::geteuid() != 0) return "only root can make them";
  for (const char* tool : {"ip", "tc", "ethtool"}) {
    try {
      run_tool({tool, tool == std::string("ethtool") ? "--version" : "-V"});
    } catch (const Error& error) {
      return error.what();
    }
  }
  const std::string trial = text(name_of_all, ::getpid(), "-trial");  // root in a container may lack the rights
  std::string why;
  try {
    ip("netns", "add", trial);
    ip_in(trial, "link", "add", "bridge", "type", "bridge");
  } catch (const Error& error) {
    why = error.what();
  }
  try {
    ip("netns", "del", trial);
  } catch (const Error&) {  // it was not made
  }
  return why;
}

int Lab::clean() {
  int count = 0;
  const fs::path networks = "/run/netns";
  if (fs::is_directory(networks)) {
    for (const auto& entry : fs::directory_iterator(networks)) {
      const std::string name = entry.path().filename().string();
      const auto pid = launcher_of(name);
      if (!pid || is_running(*pid)) continue;
      try {
        ip("netns", "del", name);
        ++count;
      } catch (const Error&) {  // another lab has cleaned up meanwhile
      }
    }
  }
  if (const auto root = root_of_groups()) {
    for (const auto& entry : fs::directory_iterator(*root)) {
      const auto pid = launcher_of(entry.path().filename().string());
      std::error_code ignored;
      if (pid && !is_running(*pid)) fs::remove(entry.path(), ignored);
    }
  }
  return count;
}

}  // namespace ripieno::launch
