// Starts the workers of a job, or a part of them, on this machine, serves their rendezvous, relays their messages and
// ends them together.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
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

/// Where PyTorch's processes meet, and which of the job's hosts this is.
struct PytorchPlace {
  std::string address;
  int port = 0;  ///< on rank 0's host (held_port.h)
  int host = 0, hosts = 1;
};

struct LocalJob {
  int workers = 1;
  std::optional<Share> share;           ///< empty: they are the whole job
  std::vector<std::string> command;     ///< of every worker; the job's token is passed in the environment, not here
  std::optional<PytorchPlace> pytorch;  ///< if set, workers get the variables that torchrun sets
  bool forks = false;                   ///< the command's main() calls serve_as_nursery() (nursery.h)
  std::string listen = "127.0.0.1:0";   ///< of the rendezvous, which a single worker does not need
  std::string network;                  ///< the network namespace in which the rendezvous listens; "": the launcher's
  std::function<WorkerPlace(int rank)> place;                  ///< may be empty
  std::vector<std::pair<std::string, std::string>> variables;  ///< added to the workers' environment
  Duration meeting = std::chrono::seconds(60);  ///< from the first worker at the rendezvous until the last
  /// The time from asking workers to end until they are killed. Workers that lost a peer get the same time to end by
  /// themselves, so that the lost one can say why it failed.
  Duration grace = std::chrono::seconds(5);
  /// Called with every message of a worker (control.h), also with {"type": "failed"}.
  std::function<void(int rank, const nlohmann::json& message)> on_message;
  /// Called with every line of a worker's standard error, and of its standard output except rank 0's, which is the
  /// launcher's. By default printed to the launcher's standard error as "[rank 2] ...", but of tracebacks of Python
  /// that are the same only the first.
  std::function<void(int rank, const std::string& line)> on_output;
  /// Called with rank 0's standard output, as it comes. By default rank 0 has the launcher's.
  std::function<void(std::string_view bytes)> on_result;
  std::function<void(const Failure& failure)> on_failure;  ///< called with every failure as it comes; may be empty
  /// Called for every worker that is lost while the others go on. By default printed to the launcher's standard error.
  std::function<void(const Failure& loss)> on_loss;
  bool repeats_lines = true;  ///< an error of a worker that said no more ends with its last lines
  std::vector<int> until;  ///< descriptors; at the end of any the workers are told to end, as by SIGTERM; if they save,
                           ///< also by a line, as by SIGINT. Closed at the job's end
  /// On an interrupt the workers save and end: they get save_signal (process.h), and have the time that they need. They
  /// say {"type": "stopped", "signal": N} then; if they come to the job's end before that, it has ended well.
  bool saves = false;
  std::function<void(int signal)> on_interrupt;  ///< called with the first interrupt; may be empty
};

/// The threads that each of so many workers on this machine gets: its part of the cores, at least 1.
int part_of_cores(int workers);

/// The launcher was told to end, by a signal (ending_signals()), and has ended its workers.
class Interrupted : public std::runtime_error {
 public:
  /// `saved`: what is saved of the job; `command`: the one that goes on with it. Both may be empty.
  explicit Interrupted(int signal, const std::string& saved = "", const std::string& command = "");
  int signal() const { return signal_; }
  const std::string& saved() const { return saved_; }

 private:
  int signal_;
  std::string saved_;
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
