#include "ripieno/launch/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/host_name.hpp>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ripieno/launch/environment.h"
#include "ripieno/launch/held_port.h"
#include "ripieno/launch/lifeline.h"
#include "ripieno/launch/lines.h"
#include "ripieno/launch/shell.h"

namespace ripieno::launch {
namespace {

/// What the agent says to the launcher, on standard output: it waits until the launcher has room for it, but not once
/// the lifeline has broken.
class Telling {
 public:
  /// Call it once the job has been read: sshd's standard input may be the same socket.
  void hold(Descriptor lifeline) {
    lifeline_ = std::move(lifeline);
    ::fcntl(STDOUT_FILENO, F_SETFL, ::fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
  }

  void say(const nlohmann::json& what) {
    print(what.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  void print(std::string_view line) {
    while (!line.empty()) {
      pollfd ends[]{{STDOUT_FILENO, POLLOUT, 0}, {lifeline_.get(), POLLIN, 0}};
      if (::poll(ends, 2, -1) < 0) continue;  // a signal came
      if (ends[1].revents != 0) return;
      const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
      if (written < 0 && errno != EAGAIN && errno != EINTR) return;  // nobody reads any more
      line.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(0, written)));
    }
  }

 private:
  Descriptor lifeline_;
};

AgentJob job_from(const std::string& line) {
  try {
    const nlohmann::json json = nlohmann::json::parse(line);
    AgentJob job;
    for (const nlohmann::json& word : json.at("command"))
      job.command.push_back(bytes_from_text(word.get<std::string>()));
    for (const nlohmann::json& one : json.at("variables"))
      job.variables.emplace_back(bytes_from_text(one.at(0).get<std::string>()),
                                 bytes_from_text(one.at(1).get<std::string>()));
    job.workers = json.at("workers");
    job.shares_cores = json.at("shares_cores");
    job.saves = json.at("saves");
    if (const nlohmann::json& place = json.at("pytorch"); !place.is_null())
      job.pytorch = PytorchPlace{place.at("address"), place.at("port"), place.at("host"), place.at("hosts")};
    job.share.first_rank = json.at("first_rank");
    job.share.world_size = json.at("world_size");
    job.share.rendezvous = json.at("rendezvous");
    job.share.token = json.at("token");
    job.lifeline = json.at("lifeline");
    job.needs_launcher = json.at("needs_launcher");
    return job;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::usage, "this command is for Ripieno's launcher, which tells it a job: ", error.what());
  }
}

LocalJob local_job(const AgentJob& job, Telling* launcher) {
  LocalJob local;
  local.workers = job.workers;
  local.share = job.share;
  local.command = job.command;
  local.variables = job.variables;
  const auto is_threads = [](const auto& one) { return one.first == "OMP_NUM_THREADS"; };
  if (job.shares_cores && !variable("OMP_NUM_THREADS") &&
      std::none_of(job.variables.begin(), job.variables.end(), is_threads))
    local.variables.emplace_back("OMP_NUM_THREADS", std::to_string(part_of_cores(job.workers)));
  local.until = {STDIN_FILENO};
  local.saves = job.saves;
  local.pytorch = job.pytorch;
  local.on_message = [launcher](int rank, const nlohmann::json& message) {
    launcher->say({{"rank", rank}, {"message", message}});
  };
  local.on_output = [launcher](int rank, const std::string& line) {
    launcher->say({{"rank", rank}, {"line", bytes_as_text(line)}});
  };
  local.on_result = [launcher](std::string_view bytes) { launcher->say({{"result", bytes_as_text(bytes)}}); };
  local.on_failure = [launcher](const Failure& failure) { launcher->say({{"failed", to_json(failure)}}); };
  local.on_loss = [launcher](const Failure& loss) { launcher->say({{"lost", to_json(loss)}}); };
  return local;
}

/// When it breaks, the workers end.
void hold_lifeline(const AgentJob& asked, Telling* launcher, LocalJob* job) {
  try {
    Descriptor lifeline = reach_launcher(asked.lifeline, asked.share.token);
    launcher->hold(Descriptor(::fcntl(lifeline.get(), F_DUPFD_CLOEXEC, 0)));
    job->until.push_back(lifeline.release());
  } catch (const Error& error) {
    if (asked.needs_launcher) throw;
    job->on_output(asked.share.first_rank, text(error.what(), ". Its workers go on where the launcher's host is lost"));
  }
}

/// A job that cannot even begin has told no failure yet.
void run(const AgentJob& asked, Telling* launcher) {
  bool has_told = false;
  const LocalJob job = local_job(asked, launcher);
  LocalJob watched = job;
  watched.on_failure = [&](const Failure& failure) {
    has_told = true;
    job.on_failure(failure);
  };
  try {
    if (!asked.lifeline.empty()) hold_lifeline(asked, launcher, &watched);
    run_local(watched);
  } catch (const Interrupted&) {  // the launcher wants it so
  } catch (const Error& error) {
    if (!has_told) job.on_failure({job.share->first_rank, error, false, std::nullopt});
  }
}

/// The addresses of ssh's connection, of the launcher and of this host; "" if there is none.
std::pair<std::string, std::string> addresses() {
  std::istringstream words(variable("SSH_CONNECTION").value_or(""));
  std::string launcher, port, here;
  words >> launcher >> port >> here;
  return {launcher, here};
}

}  // namespace

nlohmann::json to_json(const AgentJob& job) {
  nlohmann::json command = nlohmann::json::array(), variables = nlohmann::json::array(), pytorch;
  for (const std::string& word : job.command) command.push_back(bytes_as_text(word));
  for (const auto& [name, value] : job.variables) variables.push_back({bytes_as_text(name), bytes_as_text(value)});
  if (const auto& place = job.pytorch)
    pytorch = {{"address", place->address}, {"port", place->port}, {"host", place->host}, {"hosts", place->hosts}};
  return {{"command", command},
          {"variables", variables},
          {"workers", job.workers},
          {"shares_cores", job.shares_cores},
          {"saves", job.saves},
          {"pytorch", pytorch},
          {"first_rank", job.share.first_rank},
          {"world_size", job.share.world_size},
          {"rendezvous", job.share.rendezvous},
          {"token", job.share.token},
          {"lifeline", job.lifeline},
          {"needs_launcher", job.needs_launcher}};
}

void run_agent(const std::string& coded, const std::string& version) {
  const std::string folder = without_percents(coded);
  std::error_code error;
  std::filesystem::current_path(folder, error);
  if (error) {
    fail(ErrorKind::io, "there is no folder ", folder, " on ", asio::ip::host_name(), " (", error.message(),
         "): start the job in a folder that all hosts have");
  }
  const HeldPort port;
  const auto [launcher, here] = addresses();
  Telling telling;
  telling.print("\n");  // ends a line that a login script has begun, such as a window's title
  telling.say({{"hello", {{"version", version}, {"launcher", launcher}, {"here", here}, {"port", port.number()}}}});
  std::string line;
  if (!std::getline(std::cin, line)) fail(ErrorKind::io, "the launcher has ended before it told this host its job");
  run(job_from(line), &telling);
  telling.say({{"ended", true}});
}

}  // namespace ripieno::launch
