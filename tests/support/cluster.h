// Ranks for tests, in virtual time.
#pragma once

#include "ripieno/collective/virtual_cluster.h"

namespace ripieno::testing {

using ripieno::VirtualCluster;

}  // namespace ripieno::testing
