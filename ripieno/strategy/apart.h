// For strategies whose workers hold parameters of their own between exchanges.
#pragma once

#include "ripieno/strategy/learner.h"
#include "ripieno/collective/communicator.h"

namespace ripieno {

/// start_alike(), after which the ranks of a resumed run have the parameters and buffers back that each of them came
/// with: there they differ by right, and only the models are compared. Throws as start_alike().
Task<> start_apart(Communicator comm, Learner* learner, bool resumed);

}  // namespace ripieno
