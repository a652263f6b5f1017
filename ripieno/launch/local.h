// Starts the workers of a job, or a part of them, on this machine, serves their rendezvous, relays their messages and
// ends them together.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/core/runtime.h"
#include "ripieno/launch/failure.h"
#include "ripieno/launch/process.h"

namespace ripieno::launch {

/// Where a worker runs and listens; empty: as the environment says.
struct WorkerPlace {
  ProcessPlace process;
  std::string listen;
};

/// Which part of a larger job the workers are. Others of it run on other hosts; another process serves the rendezvous.
struct Share {
  int first_rank = 0, world_size = 1;
  std::string rendezvous, token;
};

struct LocalJob {
  int workers = 1;
  std::optional<Share> share;          ///< empty: they are the whole job
  std::vector<std::string> command;    ///< of every worker; the job's token is passed in the environment, not here
  bool forks = false;                  ///< the command's main() calls serve_as_nursery() (nursery.h)
  std::string listen = "127.0.0.1:0";  ///< of the rendezvous, which a single worker does not need
  std::string network;                 ///< the network namespace in which the rendezvous listens; "": the launcher's
  std::function<WorkerPlace(int rank)> place;                  ///< may be empty
  std::vector<std::pair<std::string, std::string>> variables;  ///< added to the workers' environment
  Duration meeting = std::chrono::seconds(60);  ///< from the first worker at the rendezvous until the last
  /// The time from asking workers to end until they are killed. Workers that lost a peer get the same time to end by
  /// themselves, so that the lost one can say why it failed.
  Duration grace = std::chrono::seconds(5);
  /// Called with every message of a worker (control.h), also with {"type": "failed"}.
  std::function<void(int rank, const nlohmann::json& message)> on_message;
  /// Called with every line of a worker's standard error, and of its standard output except rank 0's, which is the
  /// launcher's. By default printed to the launcher's standard error as "[rank 2] ...".
  std::function<void(int rank, const std::string& line)> on_output;
  /// Called with every line of rank 0's standard output. By default rank 0 has the launcher's.
  std::function<void(const std::string& line)> on_result;
  std::function<void(const Failure& failure)> on_failure;  ///< called with every failure as it comes; may be empty
  /// Called for every worker that is lost while the others go on. By default printed to the launcher's standard error.
  std::function<void(const Failure& loss)> on_loss;
  int until = -1;  ///< a descriptor; at its end the workers are told to end, as by SIGTERM. Closed at the job's end
};

/// The threads that each of so many workers on this machine gets: its part of the cores, at least 1.
int part_of_cores(int workers);

/// The launcher was told to end, by a signal (ending_signals()), and has ended its workers.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal);
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// Returns when all workers have ended successfully. A worker other than rank 0 that has said {"type": "survives"}
/// (control.h) is lost if a signal then ends it, or the others leave it out, and the others go on. If one fails
/// otherwise, ends the others (SIGTERM, after `grace` SIGKILL) and throws the cause: the first failure that is not
/// itself the loss of a peer (failure.h), with the worker's kind; for a worker that ended without a message,
/// Error(peer) with its signal, or WorkerExited, with its last lines. Error(network): workers could not reach each
/// other. Error(io): there are too few descriptors (descriptors.h). It leaves no process, zombie or descriptor; if the
/// launcher is killed, the kernel kills the workers. Call it from a thread that lives as long as the call. While it
/// runs it handles ending_signals() and SIGCHLD.
void run_local(const LocalJob& job);

}  // namespace ripieno::launch
