// How many files, sockets and pipes a process may have open at once.
#pragma once

#include <cstddef>
#include <string>

namespace ripieno::launch {

/// Makes room for so many descriptors beside those that are open: where the limit is too low, raises it to the hard
/// one, for this process and those that it starts. Error(io) naming both numbers where that is too low too; `who` needs
/// them, "16 workers".
void make_room_for_descriptors(std::size_t more, const std::string& who);

}  // namespace ripieno::launch
