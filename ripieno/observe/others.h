// How much of the machine's CPU time others take while something is measured here.
#pragma once

#include "ripieno/observe/usage.h"

namespace ripieno::observe {

class OthersWatch {
 public:
  OthersWatch() : machine_(machine_usage()), own_(cpu_seconds()) {}

  /// The part of the machine's CPU time since the start of the watch that other processes used, or its host gave to
  /// others: 0 to 1. 0 if unknown, and after less than a tenth of a second of CPU time, of which the system counts too
  /// little.
  double share() const { return share(machine_, own_, machine_usage(), cpu_seconds()); }

  /// The same of stated usage: the machine's and this process's, before and after.
  static double share(const MachineUsage& machine, const CpuSeconds& own, const MachineUsage& machine_after,
                      const CpuSeconds& own_after);

 private:
  MachineUsage machine_;
  CpuSeconds own_;
};

}  // namespace ripieno::observe
