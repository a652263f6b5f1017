// How an agent is started on a host, through ssh, and what has gone wrong if it does not come.
//
// RIPIENO_SSH: the command in place of `ssh`, with its options, such as "ssh -F 'my config'".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/launch/hosts.h"

namespace ripieno::launch {

/// For this process's working folder; without ssh where the host is this one. Error(usage): RIPIENO_SSH is no command.
std::vector<std::string> agent_command(const std::string& agent, const Host& host);

/// Why the command has ended without an agent's greeting. `code`: its exit code; nullopt: it was killed. `last`: the
/// last line of its standard error.
Error why_no_agent(const std::string& agent, const Host& host, std::optional<int> code, const std::string& last);

/// For a host that ssh has let in, but where no agent answers.
inline constexpr const char* login_hint =
    ": does a login script there (.bashrc, .profile) wait, exit or start another shell?";

}  // namespace ripieno::launch
