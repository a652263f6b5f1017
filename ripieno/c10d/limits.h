// The group's timeout, for what ranks do together outside of c10d's operations, which have limits of their own.
#pragma once

#include <string>

#include "ripieno/c10d/backend.h"

namespace ripieno::c10d {

/// How long ranks of the group wait for each other.
Duration waiting_limit(Backend& group);

/// Awaits the act; if it has not ended within `limit` (0: there is none), calls `give_up`, which must end it, with an
/// Error(peer) that names the ranks of `comm`'s endpoint that are waited for.
Task<> within_limit(collective::Communicator comm, Duration limit, std::string what, Task<> act,
                    std::function<void(std::exception_ptr)> give_up);

/// The same within the group's limit; `comm`, on which all ranks do the act at once, ends where it takes longer.
Task<> within_limit(Backend& group, collective::Communicator comm, std::string what, Task<> act);

}  // namespace ripieno::c10d
