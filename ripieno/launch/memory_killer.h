// Whether the kernel's memory killer may have ended a process: it sends SIGKILL, as anybody may, and says nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ripieno::launch {

/// How many processes it has ended: of this process's control group and those below it (memory.events of version 2,
/// memory.oom_control of version 1), where the system counts that; else of this machine. nullopt: not known.
std::optional<std::uint64_t> memory_kills(const std::filesystem::path& proc = "/proc",
                                          const std::filesystem::path& groups = "/sys/fs/cgroup");

/// What to say of a process that SIGKILL has ended, which had that much memory at most (0: not known), given
/// memory_kills() before it began and now; "" if it was not the memory killer.
std::string memory_hint(std::optional<std::uint64_t> before, std::optional<std::uint64_t> now,
                        std::uint64_t peak_bytes);

}  // namespace ripieno::launch
