// Starts the workers of a job on this machine, serves their rendezvous, relays their messages and ends them together.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/core/runtime.h"
#include "ripieno/launch/process.h"

namespace ripieno::launch {

/// Where a worker runs, and what it listens on for the others; empty: where and what the environment says.
struct WorkerPlace {
  ProcessPlace process;
  std::string listen;
};

struct LocalJob {
  int workers = 1;
  std::vector<std::string> command;    ///< every worker's; the job's secret is passed in the environment, not here
  std::string listen = "127.0.0.1:0";  ///< of the rendezvous, which one worker alone does without
  std::string network;                 ///< in which it listens: a network namespace; "": the launcher's
  std::function<WorkerPlace(int rank)> place;                  ///< may be empty
  std::vector<std::pair<std::string, std::string>> variables;  ///< of the workers' environment, beside the job's own
  Duration meeting = std::chrono::seconds(60);  ///< from the first worker at the rendezvous until the last
  /// From asking workers to end until they are killed; also how long those who lost a peer are given to end by
  /// themselves, so that the lost one can say why.
  Duration grace = std::chrono::seconds(5);
  /// Every message of a worker (control.h), also {"type": "failed"}.
  std::function<void(int rank, const nlohmann::json& message)> on_message;
  /// Every line of a worker's standard error, and of its standard output but for rank 0, which shares the launcher's.
  /// By default printed to the launcher's standard error as "[rank 2] ...".
  std::function<void(int rank, const std::string& line)> on_output;
};

/// The launcher was told to end, by SIGINT, SIGTERM or SIGHUP, and has ended its workers.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal);
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// The cause was a worker that exited with a code of its own and without a word (control.h). Of kind peer.
class WorkerExited : public Error {
 public:
  WorkerExited(const Error& error, int code) : Error(error), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

/// Returns when all workers have ended well. When one fails, the others are ended (SIGTERM, after `grace` SIGKILL) and
/// the cause is thrown: the first failure that is not itself the loss of a peer (failure.h), with the kind that the
/// worker gave it; a worker that ended without a word gives Error(peer) with its signal, or WorkerExited, and its last
/// lines. Error(network): workers could not reach each other. Error(io): there are too few descriptors (descriptors.h).
/// No process, zombie or descriptor is left, and should the launcher be killed, the kernel kills the workers. Call it
/// from a thread that lives as long. While it runs it handles SIGINT, SIGTERM, SIGHUP and SIGCHLD.
void run_local(const LocalJob& job);

}  // namespace ripieno::launch
