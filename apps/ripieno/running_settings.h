// The keys of a recipe that say where a job runs and what it leaves: transport, lab, simulated, measure, run.
#pragma once

#include <vector>

#include "apps/ripieno/settings.h"

namespace ripieno::program {

std::vector<Setting> running_settings();

}  // namespace ripieno::program
