#include "ripieno/launch/agent.h"

#include <algorithm>
#include <asio/ip/host_name.hpp>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ripieno/launch/environment.h"

namespace ripieno::launch {
namespace {

void say(const nlohmann::json& what) {
  std::cout << what.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n" << std::flush;
}

AgentJob job_from(const std::string& line) {
  try {
    const nlohmann::json json = nlohmann::json::parse(line);
    AgentJob job;
    job.command = json.at("command");
    job.variables = json.at("variables");
    job.workers = json.at("workers");
    job.shares_cores = json.at("shares_cores");
    job.share.first_rank = json.at("first_rank");
    job.share.world_size = json.at("world_size");
    job.share.rendezvous = json.at("rendezvous");
    job.share.token = json.at("token");
    return job;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::usage, "this command is for Ripieno's launcher, which tells it a job: ", error.what());
  }
}

LocalJob local_job(const AgentJob& job) {
  LocalJob local;
  local.workers = job.workers;
  local.share = job.share;
  local.command = job.command;
  local.variables = job.variables;
  const auto is_threads = [](const auto& one) { return one.first == "OMP_NUM_THREADS"; };
  if (job.shares_cores && !variable("OMP_NUM_THREADS") &&
      std::none_of(job.variables.begin(), job.variables.end(), is_threads))
    local.variables.emplace_back("OMP_NUM_THREADS", std::to_string(part_of_cores(job.workers)));
  local.until = 0;
  local.on_message = [](int rank, const nlohmann::json& message) { say({{"rank", rank}, {"message", message}}); };
  local.on_output = [](int rank, const std::string& line) { say({{"rank", rank}, {"line", line}}); };
  local.on_result = [](const std::string& line) { say({{"result", line}}); };
  local.on_failure = [](const Failure& failure) { say({{"failed", to_json(failure)}}); };
  local.on_loss = [](const Failure& loss) { say({{"lost", to_json(loss)}}); };
  return local;
}

/// A job that cannot even begin has told no failure yet.
void run(const LocalJob& job) {
  bool has_told = false;
  LocalJob telling = job;
  telling.on_failure = [&](const Failure& failure) {
    has_told = true;
    job.on_failure(failure);
  };
  try {
    run_local(telling);
  } catch (const Interrupted&) {  // the launcher wants it so
  } catch (const Error& error) {
    if (!has_told) job.on_failure({job.share->first_rank, error, false, std::nullopt});
  }
}

/// The launcher's address, as ssh has seen it; "" if it has not.
std::string launcher_address() {
  const std::string connection = variable("SSH_CONNECTION").value_or("");
  return connection.substr(0, connection.find(' '));
}

}  // namespace

nlohmann::json to_json(const AgentJob& job) {
  return {{"command", job.command},
          {"variables", job.variables},
          {"workers", job.workers},
          {"shares_cores", job.shares_cores},
          {"first_rank", job.share.first_rank},
          {"world_size", job.share.world_size},
          {"rendezvous", job.share.rendezvous},
          {"token", job.share.token}};
}

void run_agent(const std::string& folder, const std::string& version) {
  std::error_code error;
  std::filesystem::current_path(folder, error);
  if (error) {
    fail(ErrorKind::io, "there is no folder ", folder, " on ", asio::ip::host_name(), " (", error.message(),
         "): start the job in a folder that all hosts have");
  }
  say({{"hello", {{"version", version}, {"launcher", launcher_address()}}}});
  std::string line;
  if (!std::getline(std::cin, line)) fail(ErrorKind::io, "the launcher has ended before it told this host its job");
  run(local_job(job_from(line)));
  say({{"ended", true}});
}

}  // namespace ripieno::launch
