// The launcher's hand on one of several hosts: `ripieno agent FOLDER`, which `run_on_hosts()` starts through ssh. It
// says one JSON object a line:
//   {"hello": {"version": "0.1.0", "launcher": "10.0.0.1", "here": "10.0.0.2", "port": 34567}}   at once: the
//                                 launcher's address, as this host sees it; this host's, as the launcher does; a port
//                                 that is held
//   {"rank": 2, "message": {..}}  a worker's message (control.h)
//   {"rank": 2, "line": ".."}     a line of a worker's output, as bytes_as_text() (lines.h)
//   {"result": ".."}              a part of rank 0's standard output, in the same form
//   {"failed": {..}}              a failure (failure.h)
//   {"lost": {..}}                one of a worker without which the others go on
//   {"ended": true}               all workers have ended
// and is told one, the share of the job (AgentJob); a second line, of any words, is an interrupt, where workers save.
// When its input ends, or its lifeline breaks (lifeline.h), it ends its workers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ripieno/launch/local.h"

namespace ripieno::launch {

/// What a host is to do.
struct AgentJob {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables;
  int workers = 1;
  bool shares_cores =
      false;           ///< each worker gets an equal part of the cores, at least 1, where OMP_NUM_THREADS is not set
  bool saves = false;  ///< as LocalJob
  std::optional<PytorchPlace> pytorch = std::nullopt;
  Share share;
  std::string lifeline;        ///< host:port of the launcher's end; "": the launcher is on this host
  bool needs_launcher = true;  ///< as HostsJob
};

nlohmann::json to_json(const AgentJob& job);

/// From a folder, with_percents() (shell.h). Returns when the workers have ended, also if they failed. Error(usage):
/// what it is told is no job. Error(io): it cannot go to the folder, or the launcher has ended before it told the job.
void run_agent(const std::string& coded, const std::string& version);

}  // namespace ripieno::launch
