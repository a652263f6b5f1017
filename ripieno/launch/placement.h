// What the environment tells a process about its place in a job. No other file of the library asks the environment.
//
//   RIPIENO_RANK         0 .. world size - 1; set by `ripieno train`'s launcher, or by hand, one process a machine
//   RIPIENO_WORLD_SIZE   number of workers
//   RIPIENO_RENDEZVOUS   host:port where they find each other; of more than one
//   RIPIENO_TOKEN        the job's secret, 64 hexadecimal digits
//   RIPIENO_CONTROL_FD   descriptor of the pipe to the launcher, if there is one
//   RIPIENO_LISTEN       address that this worker listens on for the others; 127.0.0.1 where it is not set
//   RIPIENO_SHARED_MEMORY  off: over tcp also to workers of the same host; the same on all workers. on where it is not
//                          set
#pragma once

#include <string>

namespace ripieno::launch {

struct Placement {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string rendezvous, token;  ///< empty in a job of one process that nobody launched
  std::string launcher = "none";  ///< "ripieno", "mpirun", "srun", "torchrun", "none": who seems to have started it
  /// Not empty: another launcher has started several of this process, and this says which and how many, by which
  /// variables.
  std::string foreign_world;
  int control_fd = -1;
  std::string listen = "127.0.0.1";
  bool shared_memory = true;
};

/// Error(usage) naming the variable and its value where one is malformed, or missing beside the others.
Placement placement();

/// The descriptor of the control pipe alone, for errors of all the rest; -1 where there is none or it is malformed.
int control_descriptor_of_environment();

/// Error(usage) where place.foreign_world says that others like this process have been started: each of them would be a
/// job of its own, and all would write the same files.
void refuse_foreign_world(const Placement& place);

/// What a command that starts workers asks before it does anything: Error(usage) as refuse_foreign_world(), and naming
/// a variable that its workers would not take.
void check_environment();

}  // namespace ripieno::launch
