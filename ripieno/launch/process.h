// One child process of the launcher, in a process group of its own, that ends with the launcher however that ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ripieno/core/descriptor.h"

namespace ripieno::launch {

/// What the child's descriptor of control messages is called there.
inline constexpr int control_descriptor = 3;

struct Process {
  pid_t pid = -1;
  /// The launcher's ends of the child's pipes. `output` is empty where the child shares the launcher's standard output.
  Descriptor control, output, errors;
};

/// Where on this machine a child runs; empty: where its launcher does.
struct ProcessPlace {
  std::string network;                        ///< a network namespace, as `ip netns` names it
  std::vector<std::filesystem::path> groups;  ///< control groups that it joins
};

/// Runs `command` (its program is looked up in PATH) with the caller's environment but for `variables`. Its standard
/// input is empty; it has no other descriptors than 0 to 3. If the calling thread ends, the kernel kills the child.
/// Error(usage) where the program cannot be run, Error(io) where the system has no process or descriptor left.
Process start_process(const std::vector<std::string>& command,
                      const std::vector<std::pair<std::string, std::string>>& variables, bool share_output,
                      const ProcessPlace& place = {});

/// This program's own file, to start further processes of it, also where it was deleted or replaced while it runs.
/// Error(io) where the system does not say.
std::string own_program();

/// Runs a tool to its end and returns what it said on standard output. Error(io) with what it said on standard error
/// where it ends with another code than 0, or is killed because it says nothing for a minute; else as start_process().
std::string run_tool(const std::vector<std::string>& command);

/// The calling thread is in a network namespace, as `ip netns` names it, as long as this lives; sockets stay where they
/// were made. "" changes nothing. Error(io) where there is no such namespace, or this process may not enter it.
class InNetwork {
 public:
  explicit InNetwork(const std::string& network);
  ~InNetwork();
  InNetwork(const InNetwork&) = delete;
  InNetwork& operator=(const InNetwork&) = delete;

 private:
  Descriptor before_;
};

/// How the process ended, as waitpid() says it; nothing while it runs. What is left of its group is killed.
std::optional<int> reap(pid_t pid);

/// Kills process and group and waits for its end.
void kill_and_reap(pid_t pid);

}  // namespace ripieno::launch
