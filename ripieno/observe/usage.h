// What a process and its machine use, as the system counts it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ripieno::observe {

/// Bytes of this process's memory now, pages that it shares counted as its share of them (the proportional set size);
/// 0 where the system does not tell.
std::uint64_t proportional_memory();

/// The most bytes that were in memory at once since the start, shared pages counted in full; 0 where the system does
/// not tell.
std::uint64_t peak_resident_memory();

/// CPU time that this process has taken so far, in user code and in the system, in seconds.
struct CpuSeconds {
  double user = 0, system = 0;
};
CpuSeconds cpu_seconds();

/// Of this process, all its threads, since its start; memory: now. A few microseconds.
struct ProcessUsage {
  CpuSeconds cpu;
  std::uint64_t resident_bytes = 0;
  std::uint64_t switches_waiting = 0,
                switches_forced = 0;  ///< context switches: it waited for something; its time was over
};
ProcessUsage process_usage();

/// CPU time of the machine since it started, in seconds, summed over its cores; `stolen`: what its host gave to others.
/// Zeros where the system does not tell.
struct MachineUsage {
  double user = 0, system = 0, idle = 0, stolen = 0;
};
MachineUsage machine_usage();
/// Of the text of /proc/stat, in which a second has so many ticks.
MachineUsage machine_usage(std::string_view proc_stat, double ticks_a_second);

/// What network interfaces carried since they were made, as far as this process's network namespace sees them.
struct InterfaceUsage {
  std::uint64_t bytes_sent = 0, bytes_received = 0, packets_sent = 0, packets_received = 0;
};
struct NetworkUsage {
  InterfaceUsage network;  ///< all interfaces but the loopback, together
  InterfaceUsage loopback;
  std::uint64_t retransmits = 0;  ///< TCP segments sent again, of all processes
};
NetworkUsage network_usage();
/// Which network namespace that is, "net:[4026531840]"; "" where the system does not tell.
std::string network_namespace();
/// Of the texts of /proc/net/dev and /proc/net/snmp.
NetworkUsage network_usage(std::string_view proc_net_dev, std::string_view proc_net_snmp);

}  // namespace ripieno::observe
