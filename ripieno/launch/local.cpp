#include "ripieno/launch/local.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/redirect_error.hpp>
#include <asio/signal_set.hpp>
#include <deque>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "ripieno/launch/descriptors.h"
#include "ripieno/launch/failure.h"
#include "ripieno/launch/process.h"
#include "ripieno/membership/address.h"
#include "ripieno/membership/rendezvous.h"

namespace ripieno::launch {
namespace {

constexpr std::size_t kept_lines = 20;         // of a worker's standard error, for its error
constexpr std::size_t longest_line = 1 << 20;  // bytes; longer lines are cut

ErrorKind kind_named(const std::string& kind) {
  for (ErrorKind k : {ErrorKind::internal, ErrorKind::usage, ErrorKind::data, ErrorKind::io, ErrorKind::network,
                      ErrorKind::peer, ErrorKind::mismatch}) {
    if (kind == name(k)) return k;
  }
  return ErrorKind::internal;
}

struct Worker {
  Worker(Runtime& runtime, int rank, Process process)
      : rank(rank),
        pid(process.pid),
        control(runtime.context(), process.control.release()),
        output(runtime.context()),
        errors(runtime.context(), process.errors.release()) {
    if (process.output.get() >= 0) output.assign(process.output.release());
  }

  void hang_up() {
    asio::error_code ignored;
    for (auto* pipe : {&control, &output, &errors}) pipe->close(ignored);
  }

  const int rank;
  const pid_t pid;
  asio::posix::stream_descriptor control, output, errors;
  int readers = 0;
  std::optional<int> status;  ///< set once it has ended
  bool told = false;          ///< it has sent its failure
  bool lost_peer = false;     ///< it has reported that it lost a peer
  std::deque<std::string> last;
};

class LocalRun {
 public:
  LocalRun(Runtime& runtime, const LocalJob& job)
      : runtime_(runtime),
        job_(job),
        token_(membership::random_token()),
        signals_(runtime.context(), SIGINT, SIGTERM, SIGHUP) {
    signals_.add(SIGCHLD);
    membership::parse_address(job.listen);
    if (job.workers == 1) return;  // needs no rendezvous
    const InNetwork there(job.network);
    rendezvous_.emplace(runtime, job.listen, token_, job.workers, job.meeting);
    membership::check_route_to(rendezvous_->address());
  }

  ~LocalRun() {
    for (auto& worker : workers_) {
      if (!worker->status) kill_and_reap(worker->pid);
    }
  }

  void run() {
    for (int rank = 0; rank < job_.workers; ++rank) start(rank);
    runtime_.spawn("signals", watch_signals());
    if (rendezvous_) runtime_.spawn("rendezvous", serve());
    runtime_.run();
    if (interrupted_) throw Interrupted(*interrupted_);
    if (failures_.empty()) return;
    const Failure& cause = cause_of(failures_);
    if (cause.code) throw WorkerExited(cause.error, *cause.code);
    throw cause.error;
  }

 private:
  void start(int rank) {
    const WorkerPlace place = job_.place ? job_.place(rank) : WorkerPlace();
    std::vector<std::pair<std::string, std::string>> variables = job_.variables;
    variables.insert(variables.end(), {{"RIPIENO_RANK", std::to_string(rank)},
                                       {"RIPIENO_WORLD_SIZE", std::to_string(job_.workers)},
                                       {"RIPIENO_RENDEZVOUS", rendezvous_ ? rendezvous_->address() : ""},
                                       {"RIPIENO_TOKEN", token_},
                                       {"RIPIENO_CONTROL_FD", std::to_string(control_descriptor)}});
    if (!place.listen.empty()) variables.emplace_back("RIPIENO_LISTEN", place.listen);
    Process process = start_process(job_.command, variables, rank == 0, place.process);
    workers_.push_back(std::make_unique<Worker>(runtime_, rank, std::move(process)));
    Worker* worker = workers_.back().get();
    listen(worker, &worker->control, [this, worker](const std::string& line) { message(*worker, line); });
    listen(worker, &worker->output, [this, worker](const std::string& line) { show(worker->rank, line); });
    listen(worker, &worker->errors, [this, worker](const std::string& line) {
      worker->last.push_back(line.substr(0, 500));
      if (worker->last.size() > kept_lines) worker->last.pop_front();
      show(worker->rank, line);
    });
  }

  using OnLine = std::function<void(const std::string&)>;

  void listen(Worker* worker, asio::posix::stream_descriptor* pipe, OnLine on_line) {
    if (!pipe->is_open()) return;
    ++worker->readers;
    runtime_.spawn(text("pipe of rank ", worker->rank), read_lines(worker, pipe, std::move(on_line)));
  }

  Task<> read_lines(Worker* worker, asio::posix::stream_descriptor* pipe, OnLine on_line) {
    std::vector<char> chunk(16 << 10);
    const asio::mutable_buffer buffer(chunk.data(), chunk.size());
    std::string line;
    for (;;) {
      asio::error_code error;
      auto token = asio::redirect_error(asio::use_awaitable, error);
      const std::size_t got = co_await pipe->async_read_some(buffer, token);
      if (error) break;
      for (std::size_t i = 0; i < got; ++i) {
        if (chunk[i] != '\n') line += chunk[i];
        if (chunk[i] == '\n' || line.size() == longest_line) on_line(std::exchange(line, {}));
      }
    }
    if (!line.empty()) on_line(line);
    asio::error_code ignored;
    pipe->close(ignored);
    --worker->readers;
    settle(*worker);
  }

  void show(int rank, const std::string& line) {
    if (job_.on_output) {
      job_.on_output(rank, line);
    } else {
      std::cerr << text("[rank ", rank, "] ", line, "\n") << std::flush;
    }
  }

  void message(Worker& worker, const std::string& line) {
    const nlohmann::json message = nlohmann::json::parse(line, nullptr, false);
    if (!message.is_object()) return show(worker.rank, "sent a control message that is no JSON object: " + line);
    auto word = [&message](const char* key) {
      const auto found = message.find(key);
      return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    if (word("type") == "failed") {
      worker.told = true;
      const std::string said = word("message");
      const std::string line = said.rfind("rank ", 0) == 0 ? said : text("rank ", worker.rank, ": ", said);
      failed({worker.rank, Error(kind_named(word("kind")), line), word("kind") == name(ErrorKind::peer), std::nullopt});
    }
    if (word("type") == "lost-peer") worker.lost_peer = true;
    if (job_.on_message) job_.on_message(worker.rank, message);
  }

  Task<> watch_signals() {
    while (settled_ < job_.workers) {
      asio::error_code error;
      auto token = asio::redirect_error(asio::use_awaitable, error);
      const int signal = co_await signals_.async_wait(token);
      if (error) co_return;
      if (signal == SIGCHLD) {
        for (auto& worker : workers_) look_after(*worker);
      } else if (interrupted_) {
        send_all(SIGKILL);  // the second request
      } else {
        interrupted_ = signal;
        terminate();
      }
    }
  }

  Task<> serve() {
    try {
      co_await rendezvous_->serve();
    } catch (const Error& error) {
      failed({-1, error, error.kind() == ErrorKind::peer, std::nullopt});
    }
  }

  void look_after(Worker& worker) {
    if (worker.status) return;
    worker.status = reap(worker.pid);
    if (!worker.status) return;
    // Its pipes end now, unless a process that has left its group still holds them.
    runtime_.call_at(runtime_.now() + job_.grace, [&worker] { worker.hang_up(); });
    settle(worker);
  }

  /// Judges an ended worker once all its output has been read; ends the run after the last worker.
  void settle(Worker& worker) {
    if (!worker.status || worker.readers > 0) return;
    const int status = *worker.status;
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      const bool by_us = (signal == SIGTERM && terminated_) || (signal == SIGKILL && killed_);
      if (!by_us)
        lost(worker, text("was killed by signal ", signal, " (", strsignal(signal), ")"), std::nullopt,
             signal == SIGABRT);
    } else if (WEXITSTATUS(status) != 0 && !worker.told && !terminated_) {
      lost(worker, text("exited with code ", WEXITSTATUS(status)), WEXITSTATUS(status), true);
    }
    if (++settled_ == job_.workers) {
      asio::error_code ignored;
      signals_.cancel(ignored);
      if (rendezvous_) rendezvous_->close();
    }
  }

  /// Judges a worker that ended without a message. If it ended by itself, its last lines may show that an error of ours
  /// ended it.
  void lost(const Worker& worker, std::string how, std::optional<int> code, bool by_itself) {
    if (!worker.last.empty()) how += "; its last lines on standard error:";
    for (const std::string& line : worker.last) how += "\n  " + line;
    const auto blame = blame_in(how);
    const bool follows = worker.lost_peer || code == static_cast<int>(ErrorKind::peer) ||
                         (by_itself && blame && blame->rank != worker.rank);
    failed({worker.rank, Error(ErrorKind::peer, text("rank ", worker.rank, " ", how)), follows, code});
  }

  void failed(Failure failure) {
    const bool follows = failure.follows;
    failures_.push_back(std::move(failure));
    if (!follows) return terminate();
    if (!ending_) runtime_.call_at(runtime_.now() + job_.grace, [this] { terminate(); });
    ending_ = true;
  }

  /// Asks all workers to end, except those that have sent their failure and are about to end.
  void terminate() {
    if (terminated_) return;
    terminated_ = true;
    for (auto& worker : workers_) {
      if (!worker->status && !worker->told) kill(-worker->pid, SIGTERM);
    }
    runtime_.call_at(runtime_.now() + job_.grace, [this] { send_all(SIGKILL); });
  }

  void send_all(int signal) {
    killed_ = killed_ || signal == SIGKILL;
    for (auto& worker : workers_) {
      if (!worker->status) kill(-worker->pid, signal);
    }
  }

  Runtime& runtime_;
  const LocalJob& job_;
  const std::string token_;
  std::optional<membership::Rendezvous> rendezvous_;  ///< if there is more than one worker
  asio::signal_set signals_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int settled_ = 0;
  bool ending_ = false, terminated_ = false, killed_ = false;
  std::optional<int> interrupted_;
  std::vector<Failure> failures_;  ///< in the order of arrival
};

}  // namespace

Interrupted::Interrupted(int signal)
    : std::runtime_error(text("interrupted by signal ", signal, " (", strsignal(signal), ")")), signal_(signal) {}

void run_local(const LocalJob& job) {
  if (job.workers < 1) fail(ErrorKind::usage, "a job has at least 1 worker, not ", job.workers);
  const auto workers = static_cast<std::size_t>(job.workers);  // three pipes and a connection to the rendezvous each
  make_room_for_descriptors(4 * workers + 20, text(workers, workers == 1 ? " worker" : " workers"));
  const std::unique_ptr<Runtime> runtime = real_runtime(0);
  LocalRun run(*runtime, job);
  run.run();
}

}  // namespace ripieno::launch
