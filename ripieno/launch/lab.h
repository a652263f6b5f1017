// An emulated cluster on this machine. Each node is a network namespace with one link, of a given rate in each
// direction, to a switch; if the system has writable control groups, a node's CPU can be limited too. It needs root.
// The destructor removes everything; the next lab or Lab::clean() removes what a killed launcher has left.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::launch {

struct LabOptions {
  int nodes = 2;
  double mbit_s = 0;  ///< of a link, each way, 10^6 bits a second; 0: no limit. A queue of 0.1 s at either end
  double cpu = 0;     ///< CPU limit of a node's processes together, in cores; 0: no limit
};

/// The place of a node's processes (process.h).
struct LabNode {
  std::string network;                        ///< its network namespace, as `ip netns` names it
  std::string address;                        ///< its address in that network
  std::vector<std::filesystem::path> groups;  ///< its control groups
};

/// Bytes that a link of the lab sends at once after a pause: as many as it carries in 2 ms, but at least one packet of
/// 64 KiB.
std::size_t burst_of_lab(double mbit_s);

class Lab {
 public:
  /// Error(usage) with the reason if impossible() has one; Error(io) with the tool's message if something cannot be
  /// made.
  explicit Lab(const LabOptions& options);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  const LabNode& node(int index) const { return nodes_.at(static_cast<std::size_t>(index)); }
  /// The switch's namespace and its address, which every node reaches: for a rendezvous.
  const std::string& network() const { return switch_; }
  std::string address() const;
  /// Why the nodes' CPU is not limited although options.cpu asks for it; else "".
  const std::string& without_cpu() const { return without_cpu_; }

  /// Why there can be no lab here; "" if there can.
  static std::string impossible();
  /// Removes what ended launchers have left; returns the number of namespaces removed.
  static int clean();

 private:
  void make(const LabOptions& options);
  void limit_cpu(double cores);
  void take_down();

  std::string prefix_, switch_, without_cpu_;
  std::vector<LabNode> nodes_;
  std::vector<std::filesystem::path> groups_;
};

}  // namespace ripieno::launch
