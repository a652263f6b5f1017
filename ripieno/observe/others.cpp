#include "ripieno/observe/others.h"

#include <algorithm>

namespace ripieno::observe {

double OthersWatch::share(const MachineUsage& machine, const CpuSeconds& own, const MachineUsage& machine_after,
                          const CpuSeconds& own_after) {
  constexpr double least_s = 0.1;
  const auto used = [](const MachineUsage& usage) { return usage.user + usage.system + usage.stolen; };
  const double all = used(machine_after) + machine_after.idle - used(machine) - machine.idle;
  if (all < least_s) return 0;
  const double own_s = own_after.user + own_after.system - own.user - own.system;
  return std::clamp((used(machine_after) - used(machine) - own_s) / all, 0.0, 1.0);
}

}  // namespace ripieno::observe
