// The group of the processes of a job, for a user's own loop:
//
//   auto group = ripieno::init_process_group({.timeout = 5min});
//   ripieno::DistributedDataParallel ddp(net, group);             // distributed_data_parallel.h
//   group->allreduce(tensors)->wait();                            // c10d's own collectives (c10d/backend.h)
//
// Whoever started the processes describes the job (launch/placement.h): `ripieno launch`, torchrun, mpirun or srun. A
// process that nobody launched is a group of one.
#pragma once

#include <chrono>
#include <string>

#include "ripieno/c10d/backend.h"

namespace ripieno::loop {

using ProcessGroup = c10::intrusive_ptr<c10d::Backend>;

struct ProcessGroupOptions {
  std::chrono::milliseconds timeout = kBackendDefaultTimeout;   ///< of an operation: 30 minutes
  std::chrono::milliseconds meeting = std::chrono::minutes(1);  ///< until all processes have come
  std::string transport = "tcp";                                ///< tcp or mpi; shared memory is used where it can be
  std::string interface;      ///< at which this process listens, such as "eth0"; "": as the launcher says
  bool shared_memory = true;  ///< use shared memory within a host; the same on all
};

/// All processes of the job call it. Errors: launch::join().
ProcessGroup init_process_group(const ProcessGroupOptions& options = {});

/// The same by a store of c10d's that all ranks share (TCPStore, FileStore, HashStore, or a PrefixStore for each
/// group), without a launcher. Errors: c10d::meet_by_store().
ProcessGroup init_process_group(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                                std::chrono::milliseconds timeout = kBackendDefaultTimeout);

}  // namespace ripieno::loop

namespace ripieno {
using loop::init_process_group, loop::ProcessGroup, loop::ProcessGroupOptions;  // own loops need no rooms
}
