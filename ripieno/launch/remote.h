// Starts the workers of a job on several hosts, through ssh, and ends them together. On each host an agent (agent.h)
// starts and watches its workers; this side serves the rendezvous, shows what workers say, and judges failures.
#pragma once

#include <string>
#include <vector>

#include "ripieno/launch/hosts.h"
#include "ripieno/launch/local.h"

namespace ripieno::launch {

struct HostsJob {
  std::vector<Host> hosts;           ///< ranks are numbered in their order
  std::vector<std::string> command;  ///< of every worker, the same on all hosts
  /// Added to the workers' environment, beside this process's own variables that begin with RIPIENO_, OMP_ or MKL_.
  std::vector<std::pair<std::string, std::string>> variables;
  bool shares_cores = false;                     ///< as AgentJob
  std::string agent;                             ///< the program that is the agent; on each host the same path
  std::string version;                           ///< which the agents must have, too
  Duration greeting = std::chrono::seconds(30);  ///< until a host's agent has come
  Duration meeting = std::chrono::seconds(60);   ///< as LocalJob
  Duration grace = std::chrono::seconds(5);      ///< as LocalJob
  std::function<void(int rank, const nlohmann::json& message)> on_message;  ///< as LocalJob; on_output too
  std::function<void(int rank, const std::string& line)> on_output;
  bool tells_pytorch = false;  ///< workers get the variables that torchrun sets
  bool needs_launcher = true;  ///< workers meet here: a host that cannot reach this one ends the job; else it says so
  bool saves = false;          ///< as LocalJob; on_interrupt too
  std::function<void(int signal)> on_interrupt;
  std::function<void(const Failure& loss)> on_loss;  ///< as LocalJob, also with a host that is lost
};

/// As run_local(). A host whose connection ends is lost like its workers. A failure's message begins with the host.
/// Rank 0's standard output becomes this process's. Error(usage), before any worker begins: a host has not the agent,
/// or not this folder. Error(mismatch): another version of it. Error(network): ssh cannot reach a host.
void run_on_hosts(const HostsJob& job);

}  // namespace ripieno::launch
