// The collectives of a c10d group on tensors: the library's schedules (collective/schedule.h), on the tensors' own
// memory wherever that is laid out in order.
//
// Sums, products, minima and maxima of Ripieno's number types are computed on the way. Of other types, and for bitwise
// operations, every rank gets all tensors and computes the result itself, in rank order, with LibTorch: P times the
// memory. Means are sums, divided at the end.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <memory>
#include <vector>

#include "ripieno/c10d/host_tensor.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/collective/tune.h"

namespace ripieno::c10d {

/// Where an operation runs: on the communicator of its group, and on a channel that no other operation uses meanwhile.
struct Ground {
  collective::Communicator comm;
  std::uint32_t channel = 0;
  std::shared_ptr<const collective::Tuning> tuning;  ///< of exchanges by messages
};

/// All return when this rank's tensors may be used again. Errors: those of transport/endpoint.h; Error(usage): the
/// reduction does not exist for the type.

/// In place. Tensors of one type that are small are sent together.
Task<> all_reduce(Ground ground, std::vector<HostTensor> tensors, ::c10d::ReduceOp op);
/// In place, at the root; elsewhere the tensor stays as it is.
Task<> reduce(Ground ground, HostTensor tensor, ::c10d::ReduceOp op, int root);
/// The reduction of all ranks' part r, at rank r.
Task<> reduce_scatter(Ground ground, HostTensor output, Parts inputs, ::c10d::ReduceOp op);
Task<> broadcast(Ground ground, HostTensor tensor, int root);
Task<> all_gather(Ground ground, Parts outputs, HostTensor input);
/// Outputs at the root alone.
Task<> gather(Ground ground, Parts outputs, HostTensor input, int root);
/// Inputs at the root alone.
Task<> scatter(Ground ground, HostTensor output, Parts inputs, int root);
/// Parts may be of any sizes, as long as what a rank sends is what its peer expects.
Task<> all_to_all(Ground ground, Parts outputs, Parts inputs);
/// The sum of sparse tensors (COO), coalesced, in place: indices and values of all ranks are gathered.
Task<> all_reduce_sparse(Ground ground, at::Tensor tensor, ::c10d::ReduceOp op);
/// Returns when all ranks have called it. Error(mismatch): a rank has begun another operation there.
Task<> meet(Ground ground, std::string operation = "barrier");
/// Sets `alike` to whether all ranks have the same code.
Task<> compare(Ground ground, std::uint64_t code, bool* alike);

}  // namespace ripieno::c10d
