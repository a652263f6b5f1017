// An endpoint over MPI, for processes that mpirun or srun has started: MPI's own point-to-point messages, on whatever
// network it chooses, carry what a TCP connection would. The program links no MPI: it loads a plug-in (plugin.h) for
// the MPI whose launcher started it.
//
// It keeps the contract of tcp/endpoint.h: the same messages, errors, credit and counted framing. The differences:
// - A payload above MpiHub::inline_bytes goes straight from the sender's memory to the receiver's once its receive is
//   posted; before that it stays with the sender beyond the credit, and send() returns later.
// - Urgent messages do not overtake others.
// - MPI cannot take back what is under way: when a scope or a link ends, operations whose memory MPI uses fail once
//   that is over. After the watchdog has given up on a peer that no longer answers, MPI may still use that memory.
// - Its engine is MPI's own collectives (collectives.h).
// - A process that dies without a word is noticed by MPI's launcher, which ends all others.
// - An endpoint that ends waits for all others to end (MPI_Finalize does too), up to the links' time limit; after an
//   error, its own or a rank's that is missed, 5 s.
#pragma once

#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/joining.h"
#include "ripieno/transport/mpi/mpi.h"

namespace ripieno::transport {

/// All ranks of the MPI make one, at the same time.
std::shared_ptr<Endpoint> mpi_endpoint(Runtime& runtime, std::shared_ptr<Mpi> mpi, LinkOptions options);

/// The transport "mpi" (transports.h). Errors: those of start_mpi() (library.h).
Task<std::shared_ptr<Endpoint>> join_by_mpi(Joining joining);

}  // namespace ripieno::transport
