#include "ripieno/launch/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"

namespace ripieno::launch {
namespace {

constexpr int longest_silence_ms = 60'000;  // the longest that a tool may print nothing

std::string reason(int error) { return std::generic_category().message(error); }

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail(ErrorKind::io, "cannot make a pipe to a worker: ", reason(errno));
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
  }
  Descriptor read, write;
};

/// Everything that the child needs, made before the fork: after it, only async-signal-safe calls are allowed.
struct ProcessStart {
  char** arguments;
  char** environment;
  pid_t launcher;
  int input, output, errors, control, status;
  int network;  // -1: the launcher's
};

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// In a child: closes all descriptors from `first` on at its exec; one after the other where the kernel cannot do it at
/// once.
void close_on_exec_from(int first) {
#ifdef CLOSE_RANGE_CLOEXEC
  if (close_range(first, ~0u, CLOSE_RANGE_CLOEXEC) == 0) return;
#endif
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int last = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 16));
  for (int fd = first; fd < last; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

[[noreturn]] void give_up(int status) {
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(status, &error, sizeof error);
  _exit(127);
}

[[noreturn]] void become(ProcessStart plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.launcher) _exit(127);  // the launcher ended before the line above
  // The launcher's handlers would report to the launcher's event loop: none may run here.
  for (int signal : {SIGINT, SIGHUP}) {
    if (!is_ignored(signal)) ::signal(signal, SIG_DFL);
  }
  for (int signal : {SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (plan.network >= 0 && setns(plan.network, CLONE_NEWNET) != 0) give_up(plan.status);
  const int status = fcntl(plan.status, F_DUPFD_CLOEXEC, 10);  // away from descriptors 0 to 3
  if (status < 0) give_up(plan.status);
  plan.status = status;
  if (!take_descriptors(plan.input, plan.output, plan.errors, plan.control)) give_up(plan.status);
  close_on_exec_from(control_descriptor + 1);
  execvpe(plan.arguments[0], plan.arguments, plan.environment);
  give_up(plan.status);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (std::string& s : strings) all.push_back(s.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

ChildPipes::ChildPipes(const Pipes& pipes) {
  Pipe control_pipe;
  control = std::move(control_pipe.write);
  launcher.control = std::move(control_pipe.read);
  if (pipes.errors) {
    Pipe pipe;
    errors = std::move(pipe.write);
    launcher.errors = std::move(pipe.read);
  } else {
    errors = Descriptor(open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!errors.is_open()) fail(ErrorKind::io, "cannot make a worker's standard error: ", reason(errno));
  }
  if (pipes.input) {
    Pipe pipe;
    input = std::move(pipe.read);
    launcher.input = std::move(pipe.write);
  } else {
    input =
        Descriptor(pipes.from >= 0 ? fcntl(pipes.from, F_DUPFD_CLOEXEC, 0) : open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!input.is_open()) fail(ErrorKind::io, "cannot make a worker's standard input: ", reason(errno));
  }
  if (!pipes.output) return;
  Pipe pipe;
  output = std::move(pipe.write);
  launcher.output = std::move(pipe.read);
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) all.emplace_back(*entry);
  for (const auto& [name, value] : variables) {
    std::erase_if(all, [start = name + "="](const std::string& line) { return line.starts_with(start); });
    all.push_back(name + "=" + value);
  }
  return all;
}

Descriptor open_network(const std::string& name) {
  if (name.empty()) return {};
  Descriptor found(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!found.is_open()) fail(ErrorKind::io, "there is no network namespace ", name, ": ", reason(errno));
  return found;
}

void join_groups(pid_t child, const std::vector<std::filesystem::path>& groups) {
  try {
    for (const auto& group : groups) write_value(group / "cgroup.procs", std::to_string(child));
  } catch (...) {
    kill_and_reap(child);
    throw;
  }
}

bool take_descriptors(int input, int output, int errors, int control) {
  for (int* fd : {&input, &output, &errors, &control}) {
    if (*fd < 0) continue;
    const int moved = fcntl(*fd, F_DUPFD_CLOEXEC, 10);  // away from descriptors 0 to 3, which are set below
    if (moved < 0) return false;
    *fd = moved;
  }
  if (dup2(input, 0) < 0 || (output >= 0 && dup2(output, 1) < 0) || dup2(errors, 2) < 0) return false;
  if (dup2(control, control_descriptor) < 0) return false;
  for (const int moved : {input, output, errors, control}) {
    if (moved >= 0) close(moved);
  }
  return true;
}

const int save_signal = SIGUSR1;

std::vector<int> ending_signals() {
  std::vector<int> all{SIGINT, SIGTERM, SIGHUP};
  std::erase_if(all, is_ignored);
  return all;
}

Process start_process(const std::vector<std::string>& command,
                      const std::vector<std::pair<std::string, std::string>>& variables, Pipes pipes,
                      const ProcessPlace& place) {
  if (command.empty() || command.front().empty()) fail(ErrorKind::usage, "there is no command for the workers to run");
  std::vector<std::string> arguments = command, environment = environment_with(variables);
  std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  const Descriptor network = open_network(place.network);
  Pipe status;
  ChildPipes child(pipes);
  const ProcessStart plan{argv.data(),         envp.data(),        getpid(),
                          child.input.get(),   child.output.get(), child.errors.get(),
                          child.control.get(), status.write.get(), network.get()};
  sigset_t every, before;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  const pid_t pid = fork();
  if (pid == 0) become(plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) fail(ErrorKind::io, "cannot start a worker: ", reason(fork_error));
  setpgid(pid, pid);  // in parent and child, whichever runs first

  status.write = Descriptor();
  int error = 0;
  ssize_t got;
  do {
    got = read(status.read.get(), &error, sizeof error);  // returns at exec, which closes the pipe
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    kill_and_reap(pid);
    fail(error == EMFILE ? ErrorKind::io : ErrorKind::usage, "cannot run '", command.front(), "': ", reason(error));
  }
  join_groups(pid, place.groups);
  child.launcher.pid = pid;
  return std::move(child.launcher);
}

std::string own_program() {
  const char* self = "/proc/self/exe";
  std::error_code error;
  const auto path = std::filesystem::read_symlink(self, error);
  if (error) fail(ErrorKind::io, self, ": ", error.message());
  // Before its exec a child is still this program, so "/proc/self/exe" names it there even if the file has been
  // replaced.
  return std::filesystem::equivalent(path, self, error) ? path.string() : self;
}

std::string run_tool(const std::vector<std::string>& command) {
  const Process process = start_process(command, {});
  // Reads both pipes until the child has closed them, whichever it fills first.
  std::string output, errors;
  std::array<std::pair<const Descriptor*, std::string*>, 2> pipes{
      {{&process.output, &output}, {&process.errors, &errors}}};
  std::array<pollfd, 2> waits{{{process.output.get(), POLLIN, 0}, {process.errors.get(), POLLIN, 0}}};
  bool silent = false;
  while (!silent && (waits[0].fd >= 0 || waits[1].fd >= 0)) {
    const int ready = poll(waits.data(), waits.size(), longest_silence_ms);
    if (ready < 0 && errno != EINTR) break;
    silent = ready == 0;
    if (ready <= 0) continue;
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (waits[i].fd < 0 || waits[i].revents == 0) continue;
      std::array<char, 4096> chunk;
      const ssize_t got = read(pipes[i].first->get(), chunk.data(), chunk.size());
      if (got > 0) pipes[i].second->append(chunk.data(), static_cast<std::size_t>(got));
      if (got == 0 || (got < 0 && errno != EINTR)) waits[i].fd = -1;
    }
  }
  if (silent) kill(-process.pid, SIGKILL);
  int status = 0;
  while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  std::string words;
  for (const std::string& word : command) words += (words.empty() ? "" : " ") + word;
  while (errors.ends_with('\n') || errors.ends_with(' ')) errors.pop_back();
  std::replace(errors.begin(), errors.end(), '\n', ' ');
  fail(ErrorKind::io, words, ": ", silent ? "said nothing for a minute and was killed; before: " : "",
       !errors.empty() ? errors
       : silent        ? "nothing"
                       : "failed");
}

InNetwork::InNetwork(const std::string& network) {
  if (network.empty()) return;
  const Descriptor there = open_network(network);
  before_ = Descriptor(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (before_.get() < 0 || setns(there.get(), CLONE_NEWNET) != 0)
    fail(ErrorKind::io, "cannot enter network namespace ", network, ": ", reason(errno));
}

InNetwork::~InNetwork() {
  if (before_.get() >= 0) setns(before_.get(), CLONE_NEWNET);
}

std::optional<ProcessEnd> reap(pid_t pid) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid) {
    return std::nullopt;
  }
  kill(-pid, SIGKILL);  // while the ended process still holds the group's id
  int status = 0;
  rusage used{};
  while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR) {
  }
  return ProcessEnd{status, static_cast<std::uint64_t>(used.ru_maxrss) * 1024};
}

void kill_and_reap(pid_t pid) {
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ripieno::launch
