// Copies the root's state to all ranks.
#pragma once

#include <functional>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/state.h"

namespace ripieno::strategy {

/// `walk` shows the state to a visitor; on every rank it shows the same number of items of the same sizes. Bytes
/// (control): those of the items.
Task<> share_state(collective::Communicator comm, int root, std::function<void(StateVisitor&)> walk);

}  // namespace ripieno::strategy
