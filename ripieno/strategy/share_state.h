// State that one rank has and others miss: all get the root's, as a walk over it shows it.
#pragma once

#include <functional>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/state.h"

namespace ripieno::strategy {

/// Every rank's walk shows as many things of the same sizes. Bytes: of control, those that the walk shows.
Task<> share_state(collective::Communicator comm, int root, std::function<void(StateVisitor&)> walk);

}  // namespace ripieno::strategy
