// Resource usage of a process and its machine, as the system counts it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ripieno::observe {

/// This process's memory now, in bytes, with shared pages counted in proportion (the proportional set size); 0 if
/// unknown.
std::uint64_t proportional_memory();

/// The most resident bytes since the start, with shared pages counted in full; 0 if unknown.
std::uint64_t peak_resident_memory();

/// CPU time that this process has taken so far, in user code and in the system, in seconds.
struct CpuSeconds {
  double user = 0, system = 0;
};
CpuSeconds cpu_seconds();

/// Usage of all threads of this process since its start; memory: now. A call takes a few microseconds.
struct ProcessUsage {
  CpuSeconds cpu;
  std::uint64_t resident_bytes = 0;
  std::uint64_t switches_waiting = 0,
                switches_forced = 0;  ///< context switches: because it waited; because its time slice was over
};
ProcessUsage process_usage();

/// CPU time of the machine since it started, in seconds, summed over its cores; `stolen`: time that its host gave to
/// others. Zeros if unknown.
struct MachineUsage {
  double user = 0, system = 0, idle = 0, stolen = 0;
};
MachineUsage machine_usage();
/// Parses the text of /proc/stat, with so many ticks per second.
MachineUsage machine_usage(std::string_view proc_stat, double ticks_a_second);

/// Traffic of the network interfaces in this process's network namespace since they were made.
struct InterfaceUsage {
  std::uint64_t bytes_sent = 0, bytes_received = 0, packets_sent = 0, packets_received = 0;
};
struct NetworkUsage {
  InterfaceUsage network;  ///< all interfaces except the loopback, together
  InterfaceUsage loopback;
  std::uint64_t retransmits = 0;  ///< TCP segments sent again, by all processes
};
NetworkUsage network_usage();
/// The name of this network namespace, "net:[4026531840]"; "" if unknown.
std::string network_namespace();
/// Parses the texts of /proc/net/dev and /proc/net/snmp.
NetworkUsage network_usage(std::string_view proc_net_dev, std::string_view proc_net_snmp);

}  // namespace ripieno::observe
