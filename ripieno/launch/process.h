// A child process of the launcher, in its own process group. It ends with the launcher, however the launcher ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ripieno/core/descriptor.h"

namespace ripieno::launch {

/// The number of the child's descriptor for control messages.
inline constexpr int control_descriptor = 3;

struct Process {
  pid_t pid = -1;
  /// The launcher's ends of the child's pipes, of its standard input, output and error. Empty where there is none.
  Descriptor control, input, output, errors;
};

/// Which of a child's standard descriptors are pipes. Without one, its input is empty, its output the launcher's, and
/// its errors are dropped.
struct Pipes {
  bool input = false, output = true, errors = true;
  int from = -1;  ///< a descriptor that becomes the child's standard input; -1: none
};

/// What joins a new child to its launcher.
struct ChildPipes {
  /// Error(io): the system has no descriptor left.
  explicit ChildPipes(const Pipes& pipes);

  Process launcher;                           ///< its ends; no process yet
  Descriptor input, output, errors, control;  ///< the child's ends; no output: the launcher's
};

/// Where on this machine a child runs; empty: as its launcher.
struct ProcessPlace {
  std::string network;                        ///< a network namespace, as `ip netns` names it
  std::vector<std::filesystem::path> groups;  ///< control groups that it joins
};

/// Runs `command` (its program is looked up in PATH) with the caller's environment changed by `variables`. It has no
/// descriptors other than 0 to 3. If the calling thread ends, the kernel kills the child.
/// Error(usage) if the program cannot be run, Error(io) if the system has no process or descriptor left.
Process start_process(const std::vector<std::string>& command,
                      const std::vector<std::pair<std::string, std::string>>& variables, Pipes pipes = {},
                      const ProcessPlace& place = {});

/// The caller's environment changed by `variables`, as "NAME=VALUE". Of a name that is given twice the later value
/// counts.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables);

/// Of a network namespace, as `ip netns` names it; none for "". Error(io): there is none of that name.
Descriptor open_network(const std::string& name);

/// Puts a child that has started into the control groups. Kills it if that fails: Error(io).
void join_groups(pid_t child, const std::vector<std::filesystem::path>& groups);

/// In a child after its fork: makes `input`, `output` (-1: as it is), `errors` and `control` its descriptors 0 to 3.
/// Returns whether that worked, else errno says why. Calls only what is safe after the fork of any process.
bool take_descriptors(int input, int output, int errors, int control);

/// Those by which a user ends a program: SIGINT, SIGTERM, SIGHUP. But for those that this process was started to
/// ignore, as nohup does.
std::vector<int> ending_signals();

/// By which the launcher asks a worker that can do so to save and end: SIGUSR1. It ends any other.
extern const int save_signal;

/// This program's own file, for starting more processes of it, even if it was deleted or replaced meanwhile. Error(io)
/// if the system does not tell.
std::string own_program();

/// Runs a tool to its end and returns its standard output. Error(io), with its standard error, if it exits with a code
/// other than 0, or is killed because it printed nothing for a minute; else as start_process().
std::string run_tool(const std::vector<std::string>& command);

/// Moves the calling thread into a network namespace, as `ip netns` names it, for as long as this object lives; sockets
/// stay in the namespace where they were made. "" changes nothing. Error(io) if there is no such namespace, or this
/// process may not enter it.
class InNetwork {
 public:
  explicit InNetwork(const std::string& network);
  ~InNetwork();
  InNetwork(const InNetwork&) = delete;
  InNetwork& operator=(const InNetwork&) = delete;

 private:
  Descriptor before_;
};

/// How a process has ended: its status, as from waitpid(), and the most memory that it had at once.
struct ProcessEnd {
  int status = 0;
  std::uint64_t peak_bytes = 0;
};

/// nullopt while it runs. Kills the rest of its group.
std::optional<ProcessEnd> reap(pid_t pid);

/// Kills the process and its group and waits for the process to end.
void kill_and_reap(pid_t pid);

}  // namespace ripieno::launch
