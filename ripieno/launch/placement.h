// A process's place in a job, from the environment. No other file of the library reads the environment.
//
//   RIPIENO_RANK         0 .. world size - 1; set by `ripieno train`'s launcher, or by hand, one process a machine
//   RIPIENO_WORLD_SIZE   number of workers
//   RIPIENO_RENDEZVOUS   host:port where workers find each other; needed for more than one worker
//   RIPIENO_TOKEN        the job's secret, 64 hexadecimal digits
//   RIPIENO_CONTROL_FD   descriptor of the pipe to the launcher, if there is one
//   RIPIENO_LISTEN       address that this worker listens on for the others; 127.0.0.1 by default RIPIENO_SHARED_MEMORY
//   off: tcp even to workers on the same host; the same on all workers. Default: on
#pragma once

#include <string>

namespace ripieno::launch {

struct Placement {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string rendezvous, token;  ///< empty without a launcher
  std::string launcher =
      "none";  ///< "ripieno", "mpirun", "srun", "torchrun", "none": which launcher seems to have started the process
  /// If another launcher has started several of this process: which, how many, and by which variables this is known;
  /// else "".
  std::string foreign_world;
  int control_fd = -1;
  std::string listen = "127.0.0.1";
  bool shared_memory = true;
};

/// Error(usage), with the variable and its value, if one is malformed, or missing while others are set.
Placement placement();

/// Only the descriptor of the control pipe, for reporting errors in the other variables; -1 if there is none or it is
/// malformed.
int control_descriptor_of_environment();

/// Error(usage) if place.foreign_world is set: each of those processes would be its own job, and all would write the
/// same files.
void refuse_foreign_world(const Placement& place);

/// For commands that start workers, before anything else: Error(usage) as refuse_foreign_world(), and for a variable
/// that its workers would refuse.
void check_environment();

}  // namespace ripieno::launch
