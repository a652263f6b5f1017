#include "ripieno/launch/remote.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <asio/redirect_error.hpp>
#include <asio/signal_set.hpp>
#include <asio/write.hpp>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ripieno/launch/agent.h"
#include "ripieno/launch/environment.h"
#include "ripieno/launch/lines.h"
#include "ripieno/launch/placement.h"
#include "ripieno/membership/address.h"
#include "ripieno/membership/interfaces.h"
#include "ripieno/membership/rendezvous.h"

namespace ripieno::launch {
namespace {

using membership::with_port;

constexpr int not_found = 127, not_allowed = 126, ssh_failed = 255;  // exit codes of shells, and of ssh itself

/// For a shell: one word.
std::string quoted(const std::string& word) {
  std::string all = "'";
  for (const char c : word) all += c == '\'' ? "'\\''" : std::string(1, c);
  return all + "'";
}

std::vector<std::string> agent_command(const HostsJob& job, const Host& host) {
  const std::string folder = std::filesystem::current_path().string();
  if (is_here(host)) return {job.agent, "agent", folder};
  std::vector<std::string> command;
  std::istringstream words(variable("RIPIENO_SSH").value_or("ssh"));
  for (std::string word; words >> word;) command.push_back(word);
  if (command.empty()) fail(ErrorKind::usage, "RIPIENO_SSH is empty, but must be a command such as 'ssh -p 2222'");
  command.insert(command.end(),
                 {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=4", "-o", "ServerAliveInterval=15", "-o",
                  "ServerAliveCountMax=3", host.name, "exec " + quoted(job.agent) + " agent " + quoted(folder)});
  return command;
}

/// This process's variables that workers on other hosts get, too.
std::vector<std::pair<std::string, std::string>> variables_to_pass() {
  std::vector<std::pair<std::string, std::string>> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string line = *entry, name = line.substr(0, line.find('='));
    if (name == "RIPIENO_SSH") continue;
    for (const char* begin : {"RIPIENO_", "OMP_", "MKL_"}) {
      if (name.starts_with(begin)) all.emplace_back(name, line.substr(name.size() + 1));
    }
  }
  return all;
}

/// The connection to a host's agent.
struct Agent {
  Agent(Runtime& runtime, Host host, int first_rank, Process process)
      : host(std::move(host)),
        first_rank(first_rank),
        pid(process.pid),
        input(runtime.context(), process.input.release()),
        output(runtime.context(), process.output.release()),
        errors(runtime.context(), process.errors.release()) {}

  /// Its workers end then.
  void hang_up() {
    asio::error_code ignored;
    input.close(ignored);
  }

  const Host host;
  const int first_rank;
  const pid_t pid;
  asio::posix::stream_descriptor input, output, errors;
  int readers = 2;
  std::optional<std::string> launcher;  ///< once it has greeted: this process's address, as it sees it; "": it is here
  std::string last;                     ///< line of its standard error: of ssh, or of the agent
  bool has_ended = false;               ///< it has said so
  bool has_failed = false;
  int can_be_missed = 0;  ///< how many of its workers have said that the others go on without them
  std::optional<int> status;
};

class HostsRun {
 public:
  HostsRun(Runtime& runtime, const HostsJob& job) : runtime_(runtime), job_(job), signals_(runtime.context()) {
    signals_.add(SIGCHLD);
    for (const int signal : ending_signals()) signals_.add(signal);
  }

  ~HostsRun() {
    for (auto& agent : agents_) {
      if (!agent->status) kill_and_reap(agent->pid);
    }
  }

  void run() {
    int rank = 0;
    for (const Host& host : job_.hosts) {
      start(host, rank);
      rank += host.workers;
    }
    runtime_.spawn("signals", watch_signals());
    late_ = runtime_.call_at(runtime_.now() + job_.greeting, [this] { name_late(); });
    runtime_.run();
    if (interrupted_) throw Interrupted(*interrupted_);
    if (!failures_.empty()) throw_cause(failures_, losses_);
  }

 private:
  void start(const Host& host, int first_rank) {
    agents_.push_back(std::make_unique<Agent>(
        runtime_, host, first_rank, start_process(agent_command(job_, host), {}, {.input = true, .output = true})));
    Agent* agent = agents_.back().get();
    listen(agent, &agent->output, [this, agent](const std::string& line) { heard(*agent, line); });
    listen(agent, &agent->errors, [agent](const std::string& line) { agent->last = line; });
  }

  void listen(Agent* agent, asio::posix::stream_descriptor* pipe, OnLine on_line) {
    runtime_.spawn(text("pipe of ", agent->host.name), read(agent, pipe, std::move(on_line)));
  }

  Task<> read(Agent* agent, asio::posix::stream_descriptor* pipe, OnLine on_line) {
    Task<> reading = read_lines(pipe, std::move(on_line));
    co_await std::move(reading);
    --agent->readers;
    settle(*agent);
  }

  void heard(Agent& agent, const std::string& line) {
    const nlohmann::json said = nlohmann::json::parse(line, nullptr, false);
    try {
      if (said.contains("hello")) return greeted(agent, said.at("hello"));
      if (said.contains("result")) {
        std::cout << said.at("result").get<std::string>() << "\n" << std::flush;
      } else if (said.contains("failed")) {
        failed(agent, failure_from(said.at("failed")));
      } else if (said.contains("lost")) {
        lost(agent, failure_from(said.at("lost")));
      } else if (said.contains("ended")) {
        agent.has_ended = true;
      } else if (said.contains("line")) {
        show(said.at("rank"), said.at("line"));
      } else {
        heard_worker(agent, said.at("rank"), said.at("message"));
      }
    } catch (const nlohmann::json::exception&) {  // such as a greeting that a login script prints
      std::cerr << text("[", agent.host.name, "] ", line, "\n") << std::flush;
    }
  }

  void heard_worker(Agent& agent, int rank, const nlohmann::json& message) {
    if (message.value("type", "") == "survives") ++agent.can_be_missed;
    if (job_.on_message) job_.on_message(rank, message);
  }

  void show(int rank, const std::string& line) {
    if (job_.on_output) return job_.on_output(rank, line);
    std::cerr << text("[rank ", rank, "] ", line, "\n") << std::flush;
  }

  void greeted(Agent& agent, const nlohmann::json& hello) {
    const std::string version = hello.at("version");
    if (version != job_.version) {
      return failed(agent, ErrorKind::mismatch,
                    text(job_.agent, " is version ", version, " there, but ", job_.version, " here"));
    }
    agent.launcher = hello.at("launcher").get<std::string>();
    const auto has_come = [](const std::unique_ptr<Agent>& one) { return one->launcher.has_value(); };
    if (terminated_ || !std::all_of(agents_.begin(), agents_.end(), has_come)) return;
    runtime_.cancel(late_);
    try {
      begin();
    } catch (const Error& error) {
      failures_.push_back({-1, error, false, std::nullopt});
      terminate();
    }
  }

  /// All hosts are ready.
  void begin() {
    const auto is_other = [](const std::unique_ptr<Agent>& one) { return !one->launcher->empty(); };
    const auto other = std::find_if(agents_.begin(), agents_.end(), is_other);
    const std::string here = other == agents_.end() ? "127.0.0.1" : (*other)->launcher.value();
    const std::string all = membership::all_addresses();
    const int workers = workers_of(job_.hosts);
    const std::string token = membership::random_token();
    rendezvous_.emplace(runtime_, with_port(other == agents_.end() ? "127.0.0.1" : all, 0), token, workers,
                        job_.meeting);
    runtime_.spawn("rendezvous", serve());
    const int port = membership::parse_address(rendezvous_->address()).port;
    for (auto& agent : agents_) {
      const std::string& address = agent->launcher->empty() ? here : *agent->launcher;
      AgentJob share{job_.command,
                     variables_to_pass(),
                     agent->host.workers,
                     job_.shares_cores,
                     {agent->first_rank, workers, with_port(address, port), token}};
      if (other != agents_.end())
        share.variables.emplace_back("RIPIENO_LISTEN", variable("RIPIENO_LISTEN").value_or(everywhere));
      share.variables.insert(share.variables.end(), job_.variables.begin(), job_.variables.end());
      const std::string line = to_json(share).dump() + "\n";
      asio::error_code ignored;  // an agent that has ended is noticed by its end
      asio::write(agent->input, asio::buffer(line), ignored);
    }
  }

  Task<> serve() {
    try {
      Task<> serving = rendezvous_->serve();
      co_await std::move(serving);
    } catch (const Error& error) {
      judge({-1, error, error.kind() == ErrorKind::peer, std::nullopt});
    }
  }

  void name_late() {
    for (auto& agent : agents_) {
      if (!agent->launcher && !agent->has_failed) {
        failed(*agent, ErrorKind::network,
               text("has not answered within ", seconds(job_.greeting), " s of ssh's start"));
      }
    }
  }

  Task<> watch_signals() {
    while (settled_ < agents_.size()) {
      asio::error_code error;
      auto token = asio::redirect_error(asio::use_awaitable, error);
      const int signal = co_await signals_.async_wait(token);
      if (error) co_return;
      if (signal == SIGCHLD) {
        for (auto& agent : agents_) look_after(*agent);
      } else if (interrupted_) {
        kill_all();  // the second request
      } else {
        interrupted_ = signal;
        terminate();
      }
    }
  }

  void look_after(Agent& agent) {
    if (agent.status) return;
    agent.status = reap(agent.pid);
    if (agent.status) settle(agent);
  }

  /// Judges an agent that has ended, once all that it said has been read.
  void settle(Agent& agent) {
    if (!agent.status || agent.readers > 0) return;
    if (!agent.has_ended && !agent.has_failed && !terminated_) judge_end(agent);
    if (++settled_ < agents_.size()) return;
    asio::error_code ignored;
    signals_.cancel(ignored);
    runtime_.cancel(late_);
    if (rendezvous_) rendezvous_->close();
  }

  void judge_end(Agent& agent) {
    const bool is_missed = agent.first_rank == 0 || agent.can_be_missed < agent.host.workers || ending_;
    if (is_missed) return failed(agent, kind_of_end(agent), cause_of_end(agent));
    const Failure loss{agent.first_rank, Error(ErrorKind::peer, cause_of_end(agent)), false, std::nullopt};
    lost(agent, loss);
    for (int i = 1; i < agent.host.workers; ++i) {
      losses_.push_back(losses_.back());
      ++losses_.back().rank;
    }
  }

  static int code_of(const Agent& agent) { return WIFEXITED(*agent.status) ? WEXITSTATUS(*agent.status) : -1; }

  static ErrorKind kind_of_end(const Agent& agent) {
    const int code = code_of(agent);
    if (agent.launcher) return ErrorKind::peer;
    return code == ssh_failed ? ErrorKind::network : ErrorKind::usage;
  }

  std::string cause_of_end(const Agent& agent) const {
    const int code = code_of(agent);
    if (agent.launcher) return "the connection to it has ended" + (agent.last.empty() ? "" : ": " + agent.last);
    if (code == not_found || code == not_allowed) {
      return text("cannot run ", job_.agent, " there (", agent.last,
                  "): each host needs the program at the same path as this one");
    }
    if (code == ssh_failed) return "cannot be reached: " + agent.last;
    const std::string prefix = "ripieno: ";
    return agent.last.starts_with(prefix) ? agent.last.substr(prefix.size())
                                          : text("its agent has ended with code ", code, ": ", agent.last);
  }

  void failed(Agent& agent, ErrorKind kind, const std::string& why) {
    agent.has_failed = true;
    judge({agent.first_rank, Error(kind, agent.host.name + ": " + why), false, std::nullopt});
  }

  void failed(Agent& agent, Failure failure) {
    failure.error = Error(failure.error.kind(), agent.host.name + ": " + failure.error.what());
    judge(std::move(failure));
  }

  void lost(const Agent& agent, Failure loss) {
    loss.error = Error(loss.error.kind(), agent.host.name + ": " + loss.error.what());
    losses_.push_back(loss);
    if (job_.on_loss) return job_.on_loss(loss);
    std::cerr << text(loss.error.what(), "; the other ranks go on\n") << std::flush;
  }

  void judge(Failure failure) {
    const bool follows = failure.follows;
    failures_.push_back(std::move(failure));
    if (!follows) return terminate();
    if (!ending_) runtime_.call_at(runtime_.now() + job_.grace, [this] { terminate(); });
    ending_ = true;
  }

  /// Asks all agents to end their workers, which they do within the grace.
  void terminate() {
    if (terminated_) return;
    terminated_ = true;
    if (rendezvous_) rendezvous_->close();
    for (auto& agent : agents_) agent->hang_up();
    runtime_.call_at(runtime_.now() + 2 * job_.grace, [this] { kill_all(); });
  }

  void kill_all() {
    for (auto& agent : agents_) {
      if (!agent->status) kill(-agent->pid, SIGKILL);
    }
  }

  Runtime& runtime_;
  const HostsJob& job_;
  asio::signal_set signals_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::optional<membership::Rendezvous> rendezvous_;  ///< once all agents have come
  Runtime::Timer late_{};
  std::size_t settled_ = 0;
  bool ending_ = false, terminated_ = false;
  std::optional<int> interrupted_;
  std::vector<Failure> failures_;  ///< in the order of arrival
  std::vector<Failure> losses_;    ///< of workers without which the others went on
};

}  // namespace

void run_on_hosts(const HostsJob& job) {
  if (job.hosts.empty()) fail(ErrorKind::usage, "a job on hosts needs a host");
  const std::unique_ptr<Runtime> runtime = real_runtime(0);
  HostsRun run(*runtime, job);
  run.run();
}

}  // namespace ripieno::launch
