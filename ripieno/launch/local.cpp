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
#include <thread>

#include "ripieno/launch/descriptors.h"
#include "ripieno/launch/lines.h"
#include "ripieno/launch/memory_killer.h"
#include "ripieno/launch/nursery.h"
#include "ripieno/launch/tracebacks.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/rendezvous.h"

namespace ripieno::launch {
namespace {

constexpr std::size_t kept_lines = 20;  // of a worker's standard error, for its error

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
  std::uint64_t peak_bytes = 0;  ///< of memory
  std::optional<int> status;     ///< set once it has ended
  bool told = false;             ///< it has sent its failure
  bool lost_peer = false;        ///< it has reported that it lost a peer
  std::optional<Loss> loss;      ///< which, if it said so
  bool can_be_missed = false;    ///< the others go on without it
  std::deque<std::string> last;
};

class LocalRun {
 public:
  LocalRun(Runtime& runtime, const LocalJob& job)
      : runtime_(runtime),
        job_(job),
        share_(job.share.value_or(Share{0, job.workers, "", rendezvous::random_token()})),
        signals_(runtime.context()) {
    signals_.add(SIGCHLD);
    for (const int signal : ending_signals()) signals_.add(signal);
    for (const int end : job.until)
      until_.push_back(std::make_unique<asio::posix::stream_descriptor>(runtime.context(), end));
    rendezvous::parse_address(job.listen);
    if (job.share || job.workers == 1) return;  // one worker needs no rendezvous
    const InNetwork there(job.network);
    rendezvous_.emplace(runtime, job.listen, share_.token, job.workers, job.meeting);
    share_.rendezvous = rendezvous_->address();
    rendezvous::check_route_to(share_.rendezvous);
  }

  ~LocalRun() {
    for (auto& worker : workers_) {
      if (!worker->status) kill_and_reap(worker->pid);
    }
  }

  void run() {
    runtime_.spawn("signals", watch_signals());
    if (job_.forks && job_.workers > 1) nursery_.emplace(job_.command, job_.variables);
    for (int local = 0; local < job_.workers; ++local) start(share_.first_rank + local, local);
    nursery_.reset();
    for (const auto& end : until_) runtime_.spawn("end", watch_end(end.get()));
    if (rendezvous_) runtime_.spawn("rendezvous", serve());
    runtime_.run();
    const bool has_cause =
        std::any_of(failures_.begin(), failures_.end(), [](const auto& one) { return !one.follows; });
    if (interrupted_ && !(job_.saves && (has_cause || ended_well_ == job_.workers))) throw Interrupted(*interrupted_);
    if (!failures_.empty()) throw_cause(failures_, losses_);
  }

 private:
  void start(int rank, int local) {
    const WorkerPlace place = job_.place ? job_.place(rank) : WorkerPlace();
    std::vector<std::pair<std::string, std::string>> variables{
        {"RIPIENO_RANK", std::to_string(rank)},
        {"RIPIENO_LOCAL_RANK", std::to_string(local)},
        {"RIPIENO_WORLD_SIZE", std::to_string(share_.world_size)},
        {"RIPIENO_RENDEZVOUS", share_.rendezvous},
        {"RIPIENO_TOKEN", share_.token},
        {"RIPIENO_CONTROL_FD", std::to_string(control_descriptor)}};
    if (!place.listen.empty()) variables.emplace_back("RIPIENO_LISTEN", place.listen);
    if (job_.pytorch) add_pytorch(rank, local, &variables);
    const bool shares_output = rank == 0 && !job_.on_result;
    Process process = make_process(variables, {.output = !shares_output}, place.process);
    workers_.push_back(std::make_unique<Worker>(runtime_, rank, std::move(process)));
    Worker* worker = workers_.back().get();
    const auto by_line = [](auto* pipe, OnLine on_line) { return read_lines(pipe, std::move(on_line)); };
    listen(worker, &worker->control,
           by_line(&worker->control, [this, worker](const std::string& line) { message(*worker, line); }));
    listen(worker, &worker->output,
           rank == 0 ? read_bytes(&worker->output, job_.on_result)
                     : by_line(&worker->output, [this, rank](const std::string& line) { show(rank, line); }));
    listen(worker, &worker->errors, by_line(&worker->errors, [this, worker](const std::string& line) {
             worker->last.push_back(line.substr(0, 500));
             if (worker->last.size() > kept_lines) worker->last.pop_front();
             show(worker->rank, line);
           }));
  }

  void add_pytorch(int rank, int local, std::vector<std::pair<std::string, std::string>>* variables) const {
    const std::string world = std::to_string(share_.world_size);
    const std::pair<const char*, std::string> all[]{{"RANK", std::to_string(rank)},
                                                    {"WORLD_SIZE", world},
                                                    {"LOCAL_RANK", std::to_string(local)},
                                                    {"LOCAL_WORLD_SIZE", std::to_string(job_.workers)},
                                                    {"GROUP_RANK", std::to_string(job_.pytorch->host)},
                                                    {"GROUP_WORLD_SIZE", std::to_string(job_.pytorch->hosts)},
                                                    {"ROLE_NAME", "default"},
                                                    {"ROLE_RANK", std::to_string(rank)},
                                                    {"ROLE_WORLD_SIZE", world},
                                                    {"MASTER_ADDR", job_.pytorch->address},
                                                    {"MASTER_PORT", std::to_string(job_.pytorch->port)},
                                                    {"TORCHELASTIC_RUN_ID", "ripieno"},
                                                    {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                    {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                                    {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
    variables->insert(variables->end(), std::begin(all), std::end(all));
  }

  Process make_process(std::vector<std::pair<std::string, std::string>> variables, Pipes pipes,
                       const ProcessPlace& place) {
    const auto look = [this] {
      if (workers_.empty()) runtime_.context().poll();  // signals: the first worker waits until the program is loaded
      if (interrupted_) throw Interrupted(*interrupted_);
    };
    std::optional<Process> forked = nursery_ ? nursery_->start(variables, pipes, place, look) : std::nullopt;
    if (forked) return std::move(*forked);
    nursery_.reset();
    variables.insert(variables.begin(), job_.variables.begin(), job_.variables.end());
    return start_process(job_.command, variables, pipes, place);
  }

  void listen(Worker* worker, asio::posix::stream_descriptor* pipe, Task<> reading) {
    if (!pipe->is_open()) return;
    ++worker->readers;
    runtime_.spawn(text("pipe of rank ", worker->rank), read(worker, std::move(reading)));
  }

  Task<> read(Worker* worker, Task<> reading) {
    co_await std::move(reading);
    --worker->readers;
    settle(*worker);
  }

  void show(int rank, const std::string& line) {
    if (job_.on_output) return job_.on_output(rank, line);
    print(rank, tracebacks_.take(rank, line));
  }
  static void print(int rank, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) std::cerr << text("[rank ", rank, "] ", line, "\n") << std::flush;
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
      const Error said(kind_named(word("kind")), word("message"), loss_from(message.value("loss", nlohmann::json())));
      const Error error = named(said, worker.rank);
      const Failure failure{worker.rank, error, error.kind() == ErrorKind::peer, std::nullopt};
      const bool is_left_out = error.loss() && error.loss()->how == Lost::left_out;
      worker.can_be_missed&& is_left_out ? go_on_without(failure) : failed(failure);
    }
    if (word("type") == "stopped" && job_.saves) {
      if (!interrupted_) interrupted_ = message.value("signal", SIGINT);
      stopping_ = true;
    }
    if (word("type") == "lost-peer") {
      worker.lost_peer = true;
      worker.loss = loss_from(message.value("loss", nlohmann::json()));
    }
    if (word("type") == "survives") worker.can_be_missed = worker.rank != 0;
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
        interrupt(signal);
      }
    }
  }

  void interrupt(int signal) {
    if (interrupted_ || settled_ == job_.workers) return;
    interrupted_ = signal;
    if (job_.on_interrupt) job_.on_interrupt(signal);
    if (!job_.saves || terminated_) return terminate();
    stopping_ = true;
    for (auto& worker : workers_) {
      if (!worker->status) kill(worker->pid, save_signal);
    }
  }

  Task<> watch_end(asio::posix::stream_descriptor* end) {
    Task<> reading = read_lines(end, [this](const std::string&) { interrupt(SIGINT); });
    co_await std::move(reading);
    if (settled_ == job_.workers) co_return;
    if (!interrupted_) interrupted_ = SIGTERM;
    terminate();
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
    const std::optional<ProcessEnd> end = reap(worker.pid);
    if (!end) return;
    worker.status = end->status;
    worker.peak_bytes = end->peak_bytes;
    // Its pipes end now, unless a process that has left its group still holds them.
    runtime_.call_at(runtime_.now() + job_.grace, [&worker] { worker.hang_up(); });
    settle(worker);
  }

  /// Judges an ended worker once all its output has been read; ends the run after the last worker.
  void settle(Worker& worker) {
    if (!worker.status || worker.readers > 0) return;
    print(worker.rank, tracebacks_.end(worker.rank));
    const int status = *worker.status;
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      const bool by_us =
          (signal == SIGTERM && terminated_) || (signal == SIGKILL && killed_) || (signal == save_signal && stopping_);
      if (!by_us)
        lost(worker, text("was killed by signal ", signal, " (", strsignal(signal), ")", hint(worker, signal)),
             std::nullopt);
    } else if (WEXITSTATUS(status) == 0) {
      ++ended_well_;
    } else if (!worker.told && !terminated_ && !stopping_) {
      lost(worker, text("exited with code ", WEXITSTATUS(status)), WEXITSTATUS(status));
    }
    if (++settled_ == job_.workers) {
      asio::error_code ignored;
      signals_.cancel(ignored);
      for (const auto& end : until_) end->close(ignored);
      if (rendezvous_) rendezvous_->close();
    }
  }

  std::string hint(const Worker& worker, int signal) const {
    return signal == SIGKILL ? memory_hint(kills_before_, memory_kills(), worker.peak_bytes) : "";
  }

  /// Judges a worker that ended without a message.
  void lost(const Worker& worker, std::string how, std::optional<int> code) {
    std::string lines;
    for (const std::string& line : worker.last) lines += "\n  " + line;
    if (job_.repeats_lines && !lines.empty()) how += "; its last lines on standard error:" + lines;
    const bool follows = worker.lost_peer || code == static_cast<int>(ErrorKind::peer);
    const Error error(ErrorKind::peer, text("rank ", worker.rank, " ", how), worker.loss);
    const Failure failure{worker.rank, error, follows, code};
    const bool is_missed = !worker.can_be_missed || code || ending_ || terminated_;
    is_missed ? failed(failure) : go_on_without(failure);
  }

  void go_on_without(const Failure& loss) {
    losses_.push_back(loss);
    if (job_.on_loss) return job_.on_loss(loss);
    std::cerr << text(loss.error.what(), "; the other ranks go on\n") << std::flush;
  }

  void failed(Failure failure) {
    const bool follows = failure.follows;
    if (job_.on_failure) job_.on_failure(failure);
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
  Share share_;
  std::optional<rendezvous::Rendezvous> rendezvous_;  ///< if there is more than one worker
  std::optional<Nursery> nursery_;                    ///< while workers are started
  asio::signal_set signals_;
  std::vector<std::unique_ptr<asio::posix::stream_descriptor>> until_;
  std::vector<std::unique_ptr<Worker>> workers_;
  const std::optional<std::uint64_t> kills_before_ = memory_kills();
  int settled_ = 0, ended_well_ = 0;
  bool ending_ = false, stopping_ = false, terminated_ = false, killed_ = false;
  std::optional<int> interrupted_;
  Tracebacks tracebacks_;
  std::vector<Failure> failures_;  ///< in the order of arrival
  std::vector<Failure> losses_;    ///< of workers without which the others went on
};

}  // namespace

int part_of_cores(int workers) { return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / workers); }

Interrupted::Interrupted(int signal, const std::string& saved, const std::string& command)
    : std::runtime_error(text("interrupted by signal ", signal, " (", strsignal(signal), ")", saved.empty() ? "" : "; ",
                              saved, command.empty() ? "" : ". To go on:\n", command)),
      signal_(signal),
      saved_(saved) {}

void run_local(const LocalJob& job) {
  if (job.workers < 1) fail(ErrorKind::usage, "a job has at least 1 worker, not ", job.workers);
  const auto workers = static_cast<std::size_t>(job.workers);  // three pipes and a connection to the rendezvous each
  make_room_for_descriptors(4 * workers + 20, text(workers, workers == 1 ? " worker" : " workers"));
  const std::unique_ptr<Runtime> runtime = real_runtime(0);
  LocalRun run(*runtime, job);
  run.run();
}

}  // namespace ripieno::launch
