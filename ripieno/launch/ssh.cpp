#include "ripieno/launch/ssh.h"

#include <filesystem>

#include "ripieno/launch/environment.h"
#include "ripieno/launch/shell.h"

namespace ripieno::launch {
namespace {

constexpr int not_found = 127, not_allowed = 126, ssh_failed = 255;  // exit codes of shells, and of ssh itself

}  // namespace

std::vector<std::string> agent_command(const std::string& agent, const Host& host) {
  const std::string folder = with_percents(std::filesystem::current_path().string());
  if (is_here(host)) return {agent, "agent", folder};
  std::vector<std::string> command = words_of(variable("RIPIENO_SSH").value_or("ssh"), "RIPIENO_SSH");
  if (command.empty()) fail(ErrorKind::usage, "RIPIENO_SSH is empty, but must be a command such as 'ssh -p 2222'");
  command.insert(command.end(),
                 {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=4", "-o", "ServerAliveInterval=15", "-o",
                  "ServerAliveCountMax=3", host.name, "exec " + shell_word(agent) + " agent " + folder});
  return command;
}

Error why_no_agent(const std::string& agent, const Host& host, std::optional<int> code, const std::string& last) {
  if (code == ssh_failed) return Error(ErrorKind::network, "cannot be reached: " + last);
  if (code == not_found || code == not_allowed) {
    return Error(ErrorKind::usage, text("cannot run ", agent, " there (", last,
                                        "): each host needs the program at the same path as this one"));
  }
  const std::string prefix = "ripieno: ";
  if (last.starts_with(prefix)) return Error(ErrorKind::usage, last.substr(prefix.size()));
  const std::string who = is_here(host) ? "its agent" : "ssh";
  if (!code) return Error(ErrorKind::usage, who + " was killed before the job began");
  return Error(ErrorKind::usage, text(who, " has ended with code ", *code, " and no agent has come",
                                      last.empty() ? "" : ": ", last, last.empty() ? login_hint : ""));
}

}  // namespace ripieno::launch
