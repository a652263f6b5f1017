// The MPI library of this process, through the plug-in for it.
#pragma once

#include <memory>
#include <string>

#include "ripieno/transport/joining.h"
#include "ripieno/transport/mpi/mpi.h"

namespace ripieno::transport {

/// Loads the plug-in for the MPI whose launcher started this process, and starts MPI, as all other processes do at the
/// same time. Error(usage): no such launcher has started it, there is no plug-in for that MPI, it cannot be loaded or
/// is of another version, MPI was used and ended in this process before, or lets only one thread use it, or disagrees
/// with the launcher about the rank.
std::shared_ptr<Mpi> start_mpi(const Joining& joining);

/// For people: the plug-ins beside the program, with the MPI that each is for, or that there is none.
std::string known_plugins();

/// "ripieno-mpi-openmpi.so": a plug-in's file.
std::string plugin_file(const std::string& kind);

}  // namespace ripieno::transport
