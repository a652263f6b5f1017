// An emulated cluster on this machine. Each node is a network namespace with one link, of a stated rate both ways, to a
// switch; where the system has writable control groups, a node has its part of the CPU too. It needs root. What is
// there at the end is taken down, and what a killed launcher left is taken down by the next lab or by Lab::clean().
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::launch {

struct LabOptions {
  int nodes = 2;
  double mbit_s = 0;  ///< of a link, each way, 10^6 bits a second; 0: no limit. A queue of 0.1 s at either end
  double cpu = 0;     ///< cores' worth of CPU time that a node's processes have together; 0: no limit
};

/// Where a process of a node is started (process.h).
struct LabNode {
  std::string network;                        ///< its network namespace, as `ip netns` names it
  std::string address;                        ///< its own, in that network
  std::vector<std::filesystem::path> groups;  ///< its control groups
};

/// Bytes that a link of the lab lets through at once after a pause: what it carries in 2 ms, and at least one packet of
/// 64 KiB.
std::size_t burst_of_lab(double mbit_s);

class Lab {
 public:
  /// Error(usage) where impossible() says why; Error(io) with the tool's words where something cannot be made.
  explicit Lab(const LabOptions& options);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  const LabNode& node(int index) const { return nodes_.at(static_cast<std::size_t>(index)); }
  /// The switch's namespace and its address, which every node reaches: for a rendezvous.
  const std::string& network() const { return switch_; }
  std::string address() const;
  /// Why nodes have no part of the CPU of their own although they should; "" where they have.
  const std::string& without_cpu() const { return without_cpu_; }

  /// Why there can be no lab here; "" where there can.
  static std::string impossible();
  /// Takes down what launchers that no longer run have left; how many namespaces these were.
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
