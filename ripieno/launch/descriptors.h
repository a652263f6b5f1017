// The limit of files, sockets and pipes that a process may have open at once.
#pragma once

#include <cstddef>
#include <string>

namespace ripieno::launch {

/// Makes room for `more` descriptors besides the open ones: if the limit is too low, raises it to the hard limit, for
/// this process and its children. Error(io), with both numbers, if that is too low too; `who` says who needs them: "16
/// workers".
void make_room_for_descriptors(std::size_t more, const std::string& who);

}  // namespace ripieno::launch
