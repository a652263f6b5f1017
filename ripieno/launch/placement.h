// A process's place in a job, and where the job's processes meet, from the environment.
//
// Started by Ripieno's launcher, or by hand, one process a machine:
//   RIPIENO_RANK         0 .. world size - 1
//   RIPIENO_WORLD_SIZE   number of workers
//   RIPIENO_LOCAL_RANK   0 .. workers of this host - 1; by default the rank
//   RIPIENO_CONTROL_FD   descriptor of the pipe to the launcher, if there is one
// Started by another launcher: its own variables (launchers.h).
// Where they meet: what the user sets, or else what the launcher says, or else, on one host, a file of the user's alone
//   RIPIENO_RENDEZVOUS      host:port where rank 0, or the launcher, listens; needs a token
//   RIPIENO_TOKEN           the job's secret, 64 hexadecimal digits
//   RIPIENO_TOKEN_FILE      a file that holds it, which only its user can read
//   RIPIENO_MEETING_FOLDER  a folder that all hosts share, in which rank 0 leaves address and token
// Ways to peers, the same on all workers:
//   RIPIENO_LISTEN         address or interface at which this worker listens; by default 127.0.0.1, or all addresses
//                          where others are on other hosts, or meet elsewhere than on the loopback
//   RIPIENO_MPI_PLUGIN     the plug-in's file, for transport.kind = mpi; by default the one beside the program
//   RIPIENO_SHARED_MEMORY  off: tcp even to workers on the same host. Default: on
#pragma once

#include <memory>
#include <string>

#include "ripieno/rendezvous/invitation.h"

namespace ripieno::launch {

/// As RIPIENO_LISTEN: all addresses of the host that reads it.
inline constexpr const char* everywhere = "*";

struct Placement {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;             ///< among the workers of this host
  std::string launcher = "none";  ///< "ripieno", or a name of launchers.h
  std::string read;               ///< the variables by which this is known, with their values
  bool counts = false;            ///< a launcher has said how many processes there are, and one, too, is a number
  std::string mpi;                ///< the MPI that the launcher belongs to; "" if it starts anything
  std::string mpi_plugin;         ///< the file of the plug-in for MPI that the user names; ""
  std::string rendezvous, token;  ///< empty without a launcher, and where an invitation says both
  std::shared_ptr<rendezvous::InvitationPlace> invitation;  ///< where rank 0 says them; else null
  bool opens_rendezvous = false;  ///< this process is to serve it: rank 0, if no launcher of ours does
  std::string cannot_meet;        ///< why these processes cannot meet, and what to do; "" if they can
  int control_fd = -1;
  std::string listen = "127.0.0.1";
  bool shared_memory = true;
};

/// Error(usage), with the variable and its value, if one is malformed, missing while others are set, or contradicts
/// another; and as private_folder() and read of a token's file (rendezvous/invitation.h).
Placement placement();

/// For processes that know their ranks otherwise: only how they reach each other, RIPIENO_LISTEN and
/// RIPIENO_SHARED_MEMORY. Where the user names no address they listen on the loopback, or, unless all are on one host,
/// on all addresses. Error(usage): a variable is malformed.
Placement ways_to_peers(bool one_host);

/// Only the descriptor of the control pipe, for reporting errors in the other variables; -1 if there is none or it is
/// malformed.
int control_descriptor_of_environment();

/// For commands that start workers themselves, before anything else: Error(usage) if another launcher has started
/// several of this process, each of which would start a job of its own; and for a variable that its workers would
/// refuse.
void check_environment();

}  // namespace ripieno::launch
