// Which process has started a rank: what the ranks of a host have in common where their launcher names no job.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace ripieno::launch {

/// The nearest ancestor of this process that was not started with all of these variables: a launcher, or its hand on
/// this host. Shells and tools such as `time` between it and this process have them. Ancestors that this user cannot
/// look into are passed over; the parent if no other is found.
pid_t starter(const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace ripieno::launch
