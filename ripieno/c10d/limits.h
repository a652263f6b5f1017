// The group's timeout, for what ranks do together outside of c10d's operations, which have limits of their own.
#pragma once

#include <string>

#include "ripieno/c10d/backend.h"

namespace ripieno::c10d {

/// How long ranks of the group wait for each other.
Duration waiting_limit(Backend& group);

/// ": it waits for rank 1 (rank 0 waits for 1, 1 for 2, 2 does not answer)"; without the brackets where the ranks that
/// are waited for are those at which the waiting ends, and "" where there are none.
std::string because_of(const std::vector<int>& awaited, const transport::Hang& hang);

/// Awaits the act; if it has not ended within `limit` (0: there is none), calls `give_up`, which must end it, with an
/// Error(peer) that names the ranks of `comm`'s endpoint that are waited for, and at which
/// the waiting ends.
Task<> within_limit(collective::Communicator comm, Duration limit, std::string what, Task<> act,
                    std::function<void(std::exception_ptr)> give_up);

/// The same within the group's limit; `comm`, on which all ranks do the act at once, ends where it takes longer.
Task<> within_limit(Backend& group, collective::Communicator comm, std::string what, Task<> act);

}  // namespace ripieno::c10d
