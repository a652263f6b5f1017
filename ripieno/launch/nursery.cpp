#include "ripieno/launch/nursery.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "ripieno/core/error.h"
#include "ripieno/launch/environment.h"

namespace ripieno::launch {
namespace {

constexpr const char* variable_name = "RIPIENO_NURSERY";
constexpr int answer_ms = 60'000, look_ms = 100, end_ms = 1'000;
constexpr std::size_t most_bytes = 1 << 17;  // of a worker's environment: a socket takes no more at once

// A request is the worker's environment, lines that end with 0, and these descriptors: errors, control, and where the
// request says so, output and network.
constexpr std::size_t most_descriptors = 4;
struct Request {
  bool has_output = false, has_network = false;
};
/// Two come for each worker: once it is forked (it has only begun), and once it is ready, or cannot start.
struct Forked {
  pid_t worker = -1;
  int error = 0;  ///< why it does not start; no worker and no error: none can be forked
  bool has_only_begun = false;
};

/// A message of `bytes`, after a Request, with descriptors.
class Envelope {
 public:
  Envelope(Request* request, char* bytes, std::size_t size) : parts_{{{request, sizeof *request}, {bytes, size}}} {
    message_.msg_iov = parts_.data();
    message_.msg_iovlen = parts_.size();
    message_.msg_control = room_.data();
    message_.msg_controllen = room_.size();
  }

  bool send(int socket, const std::vector<int>& descriptors) {
    cmsghdr* const header = CMSG_FIRSTHDR(&message_);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
    message_.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    return sendmsg(socket, &message_, MSG_NOSIGNAL) >= 0;
  }

  /// The bytes that came after the Request; 0 at the end.
  std::size_t receive(int socket, std::vector<Descriptor>* descriptors) {
    ssize_t got;
    do {
      got = recvmsg(socket, &message_, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    for (cmsghdr* header = CMSG_FIRSTHDR(&message_); got > 0 && header; header = CMSG_NXTHDR(&message_, header)) {
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        descriptors->emplace_back(fd);
      }
    }
    return got <= static_cast<ssize_t>(sizeof(Request)) ? 0 : static_cast<std::size_t>(got) - sizeof(Request);
  }

 private:
  std::array<iovec, 2> parts_;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> room_{};
  msghdr message_{};
};

bool has_other_threads() {
  std::size_t threads = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/task")) ++threads;
  return threads > 1;
}

bool has_ended(pid_t child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
}

[[noreturn]] void refuse(int socket, Forked answer) {
  [[maybe_unused]] const ssize_t sent = send(socket, &answer, sizeof answer, MSG_NOSIGNAL);
  _exit(127);
}

void set_environment(std::string_view lines) {
  clearenv();
  while (!lines.empty()) {
    const std::size_t end = lines.find('\0');
    putenv(strdup(std::string(lines.substr(0, end)).c_str()));  // which keeps it
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

/// In a worker: takes its place, and returns when the launcher knows of it.
void be_worker(Request request, const std::vector<Descriptor>& descriptors, std::string_view environment, pid_t between,
               pid_t launcher) {
  while (getppid() == between) sched_yield();  // until the launcher is its parent
  const Descriptor socket(fcntl(0, F_DUPFD_CLOEXEC, 20)), nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) refuse(socket.get(), {});  // it has ended, or the kernel has made another one the parent
  if (request.has_network && setns(descriptors.back().get(), CLONE_NEWNET) != 0)
    refuse(socket.get(), {getpid(), errno});
  const int output = request.has_output ? descriptors[2].get() : -1;
  if (!take_descriptors(nothing.get(), output, descriptors[0].get(), descriptors[1].get()))
    refuse(socket.get(), {getpid(), errno});
  set_environment(environment);
  const Forked answer{getpid(), 0};
  if (send(socket.get(), &answer, sizeof answer, MSG_NOSIGNAL) < 0) _exit(127);
}

/// Forks a worker, in which it returns true. Its parent is a process that ends at once, so that the launcher becomes
/// its parent, as the nearest subreaper.
bool fork_worker(Request request, std::vector<Descriptor> descriptors, std::string_view environment, pid_t launcher) {
  const pid_t between = fork();
  if (between == 0) {
    const pid_t self = getpid(), worker = fork();
    if (worker < 0) refuse(0, {-1, errno});
    if (worker > 0) {
      const Forked begun{worker, 0, true};
      send(0, &begun, sizeof begun, MSG_NOSIGNAL);
      _exit(0);
    }
    be_worker(request, descriptors, environment, self, launcher);
    return true;
  }
  const Forked answer{-1, errno};
  if (between < 0) send(0, &answer, sizeof answer, MSG_NOSIGNAL);
  while (between > 0 && waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  return false;
}

}  // namespace

Nursery::Nursery(const std::vector<std::string>& command,
                 const std::vector<std::pair<std::string, std::string>>& variables)
    : variables_(variables) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    fail(ErrorKind::io, "cannot make a socket to the workers: ", std::generic_category().message(errno));
  socket_ = Descriptor(ends[0]);
  const Descriptor theirs(ends[1]);
  std::vector<std::pair<std::string, std::string>> own = variables;
  own.emplace_back(variable_name, "1");
  prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // first: in kernels before 4.11 this counts for later children alone
  try {
    process_ = start_process(command, own, {.output = false, .errors = false, .from = theirs.get()});
  } catch (...) {
    prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_);
    throw;
  }
}

Nursery::~Nursery() {
  shutdown(socket_.get(), SHUT_WR);  // it ends, once it has reaped what was between it and the last worker
  bool has_ended = false;
  for (int waited = 0; waited < end_ms && !has_ended && !is_asked_; ++waited) {
    has_ended = reap(process_.pid).has_value();
    if (!has_ended) poll(nullptr, 0, 1);
  }
  if (!has_ended) kill_and_reap(process_.pid);
  if (is_asked_) end_unwanted();
  prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_);
}

/// A worker that it was about to fork, and what was between them. All who could answer are there, or have ended.
void Nursery::end_unwanted() {
  if (begun_ > 0) kill_and_reap(begun_);
  pollfd answered{socket_.get(), POLLIN, 0};
  Forked unwanted;
  if (begun_ < 0 && poll(&answered, 1, end_ms) > 0 &&
      recv(socket_.get(), &unwanted, sizeof unwanted, 0) == sizeof unwanted && unwanted.worker > 0)
    kill_and_reap(unwanted.worker);
  while (waitpid(-process_.pid, nullptr, 0) > 0) {  // its group
  }
}

std::optional<Process> Nursery::start(const std::vector<std::pair<std::string, std::string>>& variables, Pipes pipes,
                                      const ProcessPlace& place, const std::function<void()>& look) {
  std::vector<std::pair<std::string, std::string>> all = variables_;
  all.insert(all.end(), variables.begin(), variables.end());
  std::string environment;
  for (const std::string& line : environment_with(all)) environment += line + '\0';
  if (environment.size() > most_bytes) return std::nullopt;
  const Descriptor network = open_network(place.network);
  ChildPipes child(pipes);
  std::vector<int> descriptors{child.errors.get(), child.control.get()};
  if (pipes.output) descriptors.push_back(child.output.get());
  if (network.is_open()) descriptors.push_back(network.get());
  Request request{pipes.output, network.is_open()};
  Envelope envelope(&request, environment.data(), environment.size());
  if (!envelope.send(socket_.get(), descriptors)) return std::nullopt;

  pollfd answered{socket_.get(), POLLIN, 0};
  Forked answer;
  is_asked_ = true;
  for (int waited = 0; is_asked_ && waited < answer_ms; waited += look_ms) {
    look();
    if (poll(&answered, 1, look_ms) > 0) {
      if (recv(socket_.get(), &answer, sizeof answer, 0) != sizeof answer) answer = {};
      begun_ = answer.worker;
      is_asked_ = answer.has_only_begun;
    } else if (begun_ > 0 && has_ended(begun_)) {
      is_asked_ = false;  // before it was ready: as the end of any other worker, its launcher finds it
    }
  }
  if (is_asked_) return std::nullopt;
  begun_ = -1;
  if (answer.error != 0) {
    if (answer.worker > 0) kill_and_reap(answer.worker);
    fail(ErrorKind::io, "cannot start a worker: ", std::generic_category().message(answer.error));
  }
  if (answer.worker < 0) return std::nullopt;
  if (!has_ended(answer.worker)) join_groups(answer.worker, place.groups);
  child.launcher.pid = answer.worker;
  return std::move(child.launcher);
}

void serve_as_nursery() {
  if (!variable(variable_name)) return;
  const pid_t launcher = getppid();
  if (has_other_threads()) _exit(0);  // a fork would not have them
  std::vector<char> environment(most_bytes);
  while (true) {
    Request request;
    std::vector<Descriptor> descriptors;
    const std::size_t bytes = Envelope(&request, environment.data(), environment.size()).receive(0, &descriptors);
    if (bytes == 0) _exit(0);
    if (fork_worker(request, std::move(descriptors), {environment.data(), bytes}, launcher)) return;
  }
}

}  // namespace ripieno::launch
