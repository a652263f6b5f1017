#include "ripieno/launch/remote.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <asio/redirect_error.hpp>
#include <asio/signal_set.hpp>
#include <asio/write.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ripieno/launch/agent.h"
#include "ripieno/launch/environment.h"
#include "ripieno/launch/lifeline.h"
#include "ripieno/launch/lines.h"
#include "ripieno/launch/placement.h"
#include "ripieno/launch/ssh.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/interfaces.h"
#include "ripieno/rendezvous/rendezvous.h"

namespace ripieno::launch {
namespace {

using rendezvous::with_port;

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
  std::string here;                     ///< its own address, as this process has reached it; "": it is here
  int port = 0;                         ///< that it holds
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
    const bool has_cause =
        std::any_of(failures_.begin(), failures_.end(), [](const auto& one) { return !one.follows; });
    const bool ended_well = has_result_ && !has_stopped_ && failures_.empty();
    if (interrupted_ && !(job_.saves && (has_cause || ended_well))) throw Interrupted(*interrupted_);
    if (!failures_.empty()) throw_cause(failures_, losses_);
  }

 private:
  void start(const Host& host, int first_rank) {
    std::vector<std::pair<std::string, std::string>> variables;
    if (is_here(host)) variables.emplace_back("SSH_CONNECTION", "");  // it is the user's, who has come from elsewhere
    Process process = start_process(agent_command(job_.agent, host), variables, {.input = true, .output = true});
    agents_.push_back(std::make_unique<Agent>(runtime_, host, first_rank, std::move(process)));
    Agent* agent = agents_.back().get();
    const auto hears = [this, agent](const std::string& line) { heard(*agent, line); };
    listen(agent, read_lines(&agent->output, hears, SIZE_MAX));  // of our own agent, whose workers' lines are bounded
    listen(agent, read_lines(&agent->errors, [agent](const std::string& line) { agent->last = line; }));
  }

  void listen(Agent* agent, Task<> reading) {
    runtime_.spawn(text("pipe of ", agent->host.name), read(agent, std::move(reading)));
  }

  Task<> read(Agent* agent, Task<> reading) {
    co_await std::move(reading);
    --agent->readers;
    settle(*agent);
  }

  void heard(Agent& agent, const std::string& line) {
    if (line.empty()) return;
    const nlohmann::json said = nlohmann::json::parse(line, nullptr, false);
    try {
      if (said.contains("hello")) return greeted(agent, said.at("hello"));
      if (said.contains("result")) {
        has_result_ = true;
        std::cout << bytes_from_text(said.at("result").get<std::string>()) << std::flush;
      } else if (said.contains("failed")) {
        failed(agent, failure_from(said.at("failed")));
      } else if (said.contains("lost")) {
        lost(agent, failure_from(said.at("lost")));
      } else if (said.contains("ended")) {
        agent.has_ended = true;
      } else if (said.contains("line")) {
        show(said.at("rank"), bytes_from_text(said.at("line").get<std::string>()));
      } else {
        heard_worker(agent, said.at("rank"), said.at("message"));
      }
    } catch (const nlohmann::json::exception&) {  // such as a greeting that a login script prints
      std::cerr << text("[", agent.host.name, "] ", line, "\n") << std::flush;
    }
  }

  void heard_worker(Agent& agent, int rank, const nlohmann::json& message) {
    if (message.value("type", "") == "survives") ++agent.can_be_missed;
    if (message.value("type", "") == "stopped" && job_.saves) {
      has_stopped_ = true;
      if (!interrupted_) interrupted_ = message.value("signal", SIGINT);
    }
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
    agent.here = hello.at("here").get<std::string>();
    agent.port = hello.at("port");
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
    const std::string all = rendezvous::all_addresses();
    const int workers = workers_of(job_.hosts);
    const std::string token = rendezvous::random_token();
    rendezvous_.emplace(runtime_, with_port(other == agents_.end() ? "127.0.0.1" : all, 0), token, workers,
                        job_.meeting);
    if (other != agents_.end()) lifelines_.emplace(runtime_, with_port(all, 0), token);
    runtime_.spawn("rendezvous", serve());
    const int port = rendezvous::parse_address(rendezvous_->address()).port;
    PytorchPlace pytorch{agents_[0]->here.empty() ? here : agents_[0]->here, agents_[0]->port, 0,
                         static_cast<int>(agents_.size())};
    for (auto& agent : agents_) {
      const std::string& address = agent->launcher->empty() ? here : *agent->launcher;
      AgentJob share{job_.command,
                     variables_to_pass(),
                     agent->host.workers,
                     job_.shares_cores,
                     job_.saves,
                     job_.tells_pytorch ? std::optional(pytorch) : std::nullopt,
                     {agent->first_rank, workers, with_port(address, port), token},
                     agent->launcher->empty() ? "" : with_port(address, lifelines_->port()),
                     job_.needs_launcher && workers > 1};
      ++pytorch.host;
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
               text("has not answered within ", seconds(job_.greeting), " s of ssh's start", login_hint));
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
        interrupt(signal);
      }
    }
  }

  void interrupt(int signal) {
    interrupted_ = signal;
    if (job_.on_interrupt) job_.on_interrupt(signal);
    if (!job_.saves || terminated_ || !rendezvous_) return terminate();
    for (auto& agent : agents_) {
      asio::error_code ignored;  // an agent that has ended is noticed by its end
      asio::write(agent->input, asio::buffer(std::string("interrupt\n")), ignored);
    }
  }

  void look_after(Agent& agent) {
    if (agent.status) return;
    const std::optional<ProcessEnd> end = reap(agent.pid);
    if (!end) return;
    agent.status = end->status;
    settle(agent);
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
    lifelines_.reset();
  }

  void judge_end(Agent& agent) {
    const bool is_missed = agent.first_rank == 0 || agent.can_be_missed < agent.host.workers || ending_;
    const Error cause = cause_of_end(agent);
    if (is_missed) return failed(agent, cause.kind(), cause.what());
    const Failure loss{agent.first_rank, cause, false, std::nullopt};
    lost(agent, loss);
    for (int i = 1; i < agent.host.workers; ++i) {
      losses_.push_back(losses_.back());
      ++losses_.back().rank;
    }
  }

  Error cause_of_end(const Agent& agent) const {
    const auto code = WIFEXITED(*agent.status) ? std::optional(WEXITSTATUS(*agent.status)) : std::nullopt;
    if (!agent.launcher) return why_no_agent(job_.agent, agent.host, code, agent.last);
    return Error(ErrorKind::peer, "the connection to it has ended" + (agent.last.empty() ? "" : ": " + agent.last));
  }

  void failed(Agent& agent, ErrorKind kind, const std::string& why) {
    agent.has_failed = true;
    judge({agent.first_rank, Error(kind, agent.host.name + ": " + why), false, std::nullopt});
  }

  void failed(Agent& agent, Failure failure) {
    failure.error = failure.error.reworded(agent.host.name + ": " + failure.error.what());
    judge(std::move(failure));
  }

  void lost(const Agent& agent, Failure loss) {
    loss.error = loss.error.reworded(agent.host.name + ": " + loss.error.what());
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
  std::optional<rendezvous::Rendezvous> rendezvous_;  ///< once all agents have come
  std::optional<Lifelines> lifelines_;                ///< the same, if any is on another host
  Runtime::Timer late_{};
  std::size_t settled_ = 0;
  bool ending_ = false, terminated_ = false, has_result_ = false, has_stopped_ = false;
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
