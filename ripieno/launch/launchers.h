// How other programs that start several processes tell each who it is: a table, a row for each launcher.
#pragma once

#include <optional>
#include <string>

namespace ripieno::launch {

/// What a launcher has told this process.
struct Launched {
  std::string launcher;     ///< its row's name
  int rank = 0, size = 1;   ///< of this process, and how many there are
  int local_rank = 0;       ///< among the processes of this host; rank if the launcher does not say
  bool is_one_host = true;  ///< all processes are on this host
  std::string job;          ///< a file's name; differs between jobs that a user has at the same time, unless they
                            ///< are of several hosts and the launcher names none, or have the same plain variables
  std::string address;      ///< host:port where the launcher would have rank 0 listen; "" if it names none
  bool carries_variables = false;  ///< its processes have the variables of the shell that started it, on all hosts
  std::string mpi;                 ///< the MPI that it belongs to: "Open MPI", "MPICH"; "" if it starts anything
  std::string read;                ///< the variables that said so, and their values: "PMI_RANK is 1, PMI_SIZE is 2"
};

/// The first row that fits and has started several of this process; else the first that has started it alone. Rows of
/// launchers that start others come after these; so of a job step that torchrun runs in, torchrun's counts. nullopt:
/// none has started this process, as far as the environment says. Error(usage), with both, if a rank is not below its
/// size, or a variable is not a number, or plain variables (RANK) contradict a launcher's.
std::optional<Launched> launched();

/// The launcher that seems to have started this process, even if it is the only one; "none".
std::string launcher_name();

/// "SLURM_RESTART_COUNT is 1": this job has been started before, by the same launcher; "" if none says so.
std::string restarted();

/// Launchers that are not in the table: variables that look like a rank and a size above 1, in words; "" if none do.
std::string unknown_launcher();

/// "node[07-09,12],other" -> "node07": the first host of a list as Slurm writes it.
std::string first_host(const std::string& list);

}  // namespace ripieno::launch
