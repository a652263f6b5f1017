// What a Backend is asked, checked and begun.
#include <ATen/MemoryOverlap.h>

#include <numeric>

#include "ripieno/c10d/backend.h"
#include "ripieno/c10d/combining.h"

namespace ripieno::c10d {
namespace {

using Tensors = std::vector<at::Tensor>;
using ::c10d::OpType;

/// The one tensor of a call; c10d's lists are of the devices of a process, of which there is one.
const at::Tensor& only(const char* operation, const Tensors& tensors) {
  if (tensors.size() != 1) {
    fail(ErrorKind::usage, operation, " with ", tensors.size(), " tensors of this rank: it takes one");
  }
  return tensors[0];
}

void check_rank(const char* operation, std::int64_t rank, int size) {
  if (rank < 0 || rank >= size)
    fail(ErrorKind::usage, operation, " with root rank ", rank, ": the group has ranks 0 to ", size - 1);
}

/// As many tensors as there are ranks, each with the type and, if `alike`, the sizes of `one`.
void check_parts(const char* operation, const Tensors& parts, int size, const at::Tensor& one, bool alike) {
  if (parts.size() != static_cast<std::size_t>(size)) {
    fail(ErrorKind::usage, operation, " with a list of ", parts.size(), " tensors: the group has ", size,
         " ranks, and each needs one");
  }
  for (const at::Tensor& part : parts) {
    if (part.scalar_type() != one.scalar_type() || (alike && part.numel() != one.numel())) {
      fail(ErrorKind::usage, operation, " with a tensor of ", part.numel(), " ", part.scalar_type(),
           " in the list, beside one of ", one.numel(), " ", one.scalar_type(), ": they must be alike");
    }
  }
}

void check_type(const char* operation, const at::Tensor& output, const at::Tensor& input) {
  if (output.scalar_type() != input.scalar_type()) {
    fail(ErrorKind::usage, operation, " from ", input.scalar_type(), " into ", output.scalar_type(),
         ": they must be of one type");
  }
}

void check_ratio(const char* operation, std::int64_t whole, std::int64_t part, int size) {
  if (whole != part * size) {
    fail(ErrorKind::usage, operation, " between tensors of ", part, " and ", whole, " elements: the latter must have ",
         size, " times as many, as the group has ranks");
  }
}

/// What this rank sends to itself.
void check_own_part(const char* operation, int rank, const Parts& from, const Parts& into) {
  if (from[rank].size() != into[rank].size()) {
    fail(ErrorKind::usage, operation, " where rank ", rank, " sends itself ", from[rank].size(), " bytes and expects ",
         into[rank].size(), " of itself: part ", rank, " of its input and of its output must be alike");
  }
}

std::vector<HostTensor> on_host(const char* operation, const Tensors& tensors, const ::c10d::ReduceOp& op) {
  std::vector<HostTensor> found;
  for (const at::Tensor& tensor : tensors) {
    check_reduction(operation, op, tensor.scalar_type());
    found.emplace_back(tensor);
  }
  return found;
}

TypeCode code_of(const HostTensor& tensor) { return static_cast<TypeCode>(tensor.host().scalar_type()); }

std::function<Task<>(Ground)> reducing(const Tensors& tensors, const ::c10d::ReduceOp& op) {
  return [on_host = on_host("all_reduce", tensors, op), op](Ground ground) { return all_reduce(ground, on_host, op); };
}

/// Of all_gather_into_tensor, or of one tensor of its coalesced form.
std::function<Task<>(Ground)> gathering(const char* operation, const at::Tensor& output, const at::Tensor& input,
                                        int size) {
  check_type(operation, output, input);
  check_ratio(operation, output.numel(), input.numel(), size);
  return [parts = Parts::equal(output, size), input = HostTensor(input)](Ground ground) {
    return all_gather(ground, parts, input);
  };
}

/// Of reduce_scatter_tensor, or of one tensor of its coalesced form.
std::function<Task<>(Ground)> scattering_sums(const char* operation, const at::Tensor& output, const at::Tensor& input,
                                              const ::c10d::ReduceOp& op, int size) {
  check_type(operation, output, input);
  check_reduction(operation, op, input.scalar_type());
  check_ratio(operation, input.numel(), output.numel(), size);
  return [parts = Parts::equal(input, size), output = HostTensor(output), op](Ground ground) {
    return c10d::reduce_scatter(ground, output, parts, op);
  };
}

template <class Options>
Asked asked_by(const Options& options, OpType type, const char* title, Tensors inputs, Tensors outputs) {
  Asked asked{type, title, std::move(inputs), std::move(outputs), options.timeout, options.asyncOp};
  if constexpr (requires { options.rootRank; }) asked.root = static_cast<int>(options.rootRank);
  return asked;
}

}  // namespace

void Backend::check_written(const Asked& asked) const {
  const bool is_root = rank_ == asked.root;
  if ((asked.type == OpType::BROADCAST && is_root) || (asked.type == OpType::REDUCE && !is_root)) return;
  for (const at::Tensor& output : asked.outputs) {
    if (output.layout() != at::kStrided || at::has_internal_overlap(output) != at::MemOverlap::Yes) continue;
    fail(ErrorKind::usage, asked.title, " into a tensor of sizes ", output.sizes(), " and strides ", output.strides(),
         ", whose elements share memory (of expand()?): give it a clone()");
  }
}

Backend::Handle Backend::broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) {
  const HostTensor tensor(only("broadcast", tensors));
  const int root = static_cast<int>(options.rootRank);
  check_rank("broadcast", root, size_);
  return begin(asked_by(options, OpType::BROADCAST, title("broadcast"), tensors, tensors),
               [tensor, root](Ground ground) { return c10d::broadcast(ground, tensor, root); });
}

Backend::Handle Backend::allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  const at::Tensor tensor = only("all_reduce", tensors);
  if (tensor.layout() == at::kSparse) return allreduce_sparse(tensors, options);
  return begin(asked_by(options, OpType::ALLREDUCE, title("all_reduce"), tensors, tensors),
               reducing(tensors, options.reduceOp));
}

Backend::Handle Backend::reduce_in(const std::shared_ptr<Order>& order, const at::Tensor& tensor,
                                   const ::c10d::ReduceOp& reduction) {
  Asked asked{OpType::ALLREDUCE, title("all_reduce"), {tensor}, {tensor}};
  asked.is_apart = true;
  return begin_in(order, asked, reducing({tensor}, reduction));
}

Backend::Handle Backend::allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  const at::Tensor tensor = only("all_reduce", tensors);
  if (options.reduceOp != ::c10d::ReduceOp::SUM || tensor.layout() != at::kSparse)
    fail(ErrorKind::usage, "a sparse all_reduce takes one tensor of layout torch.sparse_coo, and sums");
  return begin(asked_by(options, OpType::_ALLREDUCE_SPARSE, title("sparse_all_reduce"), tensors, tensors),
               [tensor, op = options.reduceOp](Ground ground) { return all_reduce_sparse(ground, tensor, op); });
}

Backend::Handle Backend::allreduce_coalesced(Tensors& tensors, const ::c10d::AllreduceCoalescedOptions& options) {
  return begin(asked_by(options, OpType::ALLREDUCE_COALESCED, title("all_reduce"), tensors, tensors),
               reducing(tensors, options.reduceOp));
}

Backend::Handle Backend::reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) {
  const HostTensor tensor(only("reduce", tensors));
  check_reduction("reduce", options.reduceOp, tensor.host().scalar_type());
  const int root = static_cast<int>(options.rootRank);
  check_rank("reduce", root, size_);
  return begin(asked_by(options, OpType::REDUCE, title("reduce"), tensors, tensors),
               [tensor, root, op = options.reduceOp](Ground ground) { return c10d::reduce(ground, tensor, op, root); });
}

Backend::Handle Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                   const ::c10d::AllgatherOptions& options) {
  const at::Tensor input = only("all_gather", inputs);
  if (outputs.size() != 1)
    fail(ErrorKind::usage, "all_gather with ", outputs.size(), " lists of outputs: it takes one");
  check_parts("all_gather", outputs[0], size_, input, true);
  return begin(asked_by(options, OpType::ALLGATHER, title("all_gather"), inputs, outputs[0]),
               [parts = Parts(outputs[0]), input = HostTensor(input)](Ground ground) {
                 return all_gather(ground, parts, input);
               });
}

Backend::Handle Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                         const ::c10d::AllgatherOptions& options) {
  return begin(asked_by(options, OpType::_ALLGATHER_BASE, title("_all_gather_base"), {input}, {output}),
               gathering("all_gather_into_tensor", output, input, size_));
}

Backend::Handle Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const ::c10d::AllgatherOptions& options) {
  if (outputs.size() != static_cast<std::size_t>(size_)) {
    fail(ErrorKind::usage, "all_gather_coalesced with ", outputs.size(), " lists of outputs: the group has ", size_,
         " ranks, and each needs one");
  }
  std::vector<Operation> operations;
  Tensors all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors parts;
    for (const Tensors& list : outputs) {
      if (list.size() != inputs.size()) {
        fail(ErrorKind::usage, "all_gather_coalesced with lists of ", list.size(), " outputs for ", inputs.size(),
             " inputs");
      }
      parts.push_back(list[i]);
    }
    check_parts("all_gather_coalesced", parts, size_, inputs[i], true);
    all.insert(all.end(), parts.begin(), parts.end());
    operations.push_back([parts = Parts(parts), input = HostTensor(inputs[i])](Ground ground) {
      return all_gather(ground, parts, input);
    });
  }
  return begin(asked_by(options, OpType::ALLGATHER_COALESCED, title("all_gather"), inputs, all),
               [operations](Ground ground) { return one_by_one(ground, operations); });
}

Backend::Handle Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                         const ::c10d::AllgatherOptions& options) {
  if (outputs.size() != inputs.size()) {
    fail(ErrorKind::usage, "all_gather_into_tensor_coalesced with ", outputs.size(), " outputs for ", inputs.size(),
         " inputs");
  }
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    operations.push_back(gathering("all_gather_into_tensor_coalesced", outputs[i], inputs[i], size_));
  }
  return begin(
      asked_by(options, OpType::ALLGATHER_COALESCED, title("all_gather_into_tensor_coalesced"), inputs, outputs),
      [operations](Ground ground) { return one_by_one(ground, operations); });
}

Backend::Handle Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const ::c10d::GatherOptions& options) {
  const at::Tensor input = only("gather", inputs);
  const int root = static_cast<int>(options.rootRank);
  check_rank("gather", root, size_);
  if (outputs.size() != (rank_ == root ? 1u : 0u)) {
    fail(ErrorKind::usage, "gather with ", outputs.size(), " lists of outputs on rank ", rank_, ": the root, rank ",
         root, ", gives one, the others none");
  }
  const Tensors list = outputs.empty() ? Tensors{} : outputs[0];
  if (rank_ == root) check_parts("gather", list, size_, input, true);
  return begin(asked_by(options, OpType::GATHER, title("gather"), inputs, list),
               [parts = Parts(list), input = HostTensor(input), root](Ground ground) {
                 return c10d::gather(ground, parts, input, root);
               });
}

Backend::Handle Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                 const ::c10d::ScatterOptions& options) {
  const at::Tensor output = only("scatter", outputs);
  const int root = static_cast<int>(options.rootRank);
  check_rank("scatter", root, size_);
  if (inputs.size() != (rank_ == root ? 1u : 0u)) {
    fail(ErrorKind::usage, "scatter with ", inputs.size(), " lists of inputs on rank ", rank_, ": the root, rank ",
         root, ", gives one, the others none");
  }
  const Tensors list = inputs.empty() ? Tensors{} : inputs[0];
  if (rank_ == root) check_parts("scatter", list, size_, output, true);
  return begin(asked_by(options, OpType::SCATTER, title("scatter"), list, outputs),
               [parts = Parts(list), output = HostTensor(output), root](Ground ground) {
                 return c10d::scatter(ground, output, parts, root);
               });
}

Backend::Handle Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                        const ::c10d::ReduceScatterOptions& options) {
  const at::Tensor output = only("reduce_scatter", outputs);
  if (inputs.size() != 1)
    fail(ErrorKind::usage, "reduce_scatter with ", inputs.size(), " lists of inputs: it takes one");
  check_parts("reduce_scatter", inputs[0], size_, output, false);
  check_reduction("reduce_scatter", options.reduceOp, output.scalar_type());
  const std::int64_t mine = inputs[0][static_cast<std::size_t>(rank_)].numel();
  if (mine != output.numel()) {
    fail(ErrorKind::usage, "reduce_scatter into a tensor of ", output.numel(),
         " elements, where this rank's input has ", mine);
  }
  return begin(asked_by(options, OpType::REDUCE_SCATTER, title("reduce_scatter"), inputs[0], outputs),
               [parts = Parts(inputs[0]), output = HostTensor(output), op = options.reduceOp](Ground ground) {
                 return c10d::reduce_scatter(ground, output, parts, op);
               });
}

Backend::Handle Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                              const ::c10d::ReduceScatterOptions& options) {
  return begin(asked_by(options, OpType::_REDUCE_SCATTER_BASE, title("_reduce_scatter_base"), {input}, {output}),
               scattering_sums("reduce_scatter_tensor", output, input, options.reduceOp, size_));
}

Backend::Handle Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                         const ::c10d::ReduceScatterOptions& options) {
  if (outputs.size() != inputs.size()) {
    fail(ErrorKind::usage, "reduce_scatter_tensor_coalesced with ", outputs.size(), " outputs for ", inputs.size(),
         " inputs");
  }
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    operations.push_back(
        scattering_sums("reduce_scatter_tensor_coalesced", outputs[i], inputs[i], options.reduceOp, size_));
  }
  return begin(asked_by(options, OpType::REDUCE_SCATTER_TENSOR_COALESCED, title("reduce_scatter_tensor_coalesced"),
                        inputs, outputs),
               [operations](Ground ground) { return one_by_one(ground, operations); });
}

Backend::Handle Backend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                                       std::vector<std::int64_t>& input_rows, const ::c10d::AllToAllOptions& options) {
  check_type("all_to_all_single", output, input);
  const Parts into = Parts::along_rows(output, output_rows, size_), from = Parts::along_rows(input, input_rows, size_);
  check_own_part("all_to_all_single", rank_, from, into);
  return begin(asked_by(options, OpType::ALLTOALL_BASE, title("all_to_all"), {input}, {output}),
               [into, from](Ground ground) { return all_to_all(ground, into, from); });
}

Backend::Handle Backend::alltoall(Tensors& outputs, Tensors& inputs, const ::c10d::AllToAllOptions& options) {
  if (inputs.empty())
    fail(ErrorKind::usage, "all_to_all with no tensors: each of the group's ", size_, " ranks needs one");
  check_parts("all_to_all", inputs, size_, inputs[0], false);
  check_parts("all_to_all", outputs, size_, inputs[0], false);
  const Parts into(outputs), from(inputs);
  check_own_part("all_to_all", rank_, from, into);
  return begin(asked_by(options, OpType::ALLTOALL, title("all_to_all"), inputs, outputs),
               [into, from](Ground ground) { return all_to_all(ground, into, from); });
}

Backend::Handle Backend::send(Tensors& tensors, int peer, int tag) {
  const HostTensor host(only("send", tensors));
  check_peer("send", peer, tag);
  return begin_message({OpType::SEND, title("send"), tensors, {}},
                       [host, peer, tag](TaggedMessages& messages, Duration limit) {
                         return send_one(messages.shared_from_this(), host, peer, tag, limit);
                       });
}

Backend::Handle Backend::recv(Tensors& tensors, int peer, int tag) {
  check_peer("recv", peer, tag);
  return receive(OpType::RECV, title("recv"), tensors, peer, tag);
}

Backend::Handle Backend::recvAnysource(Tensors& tensors, int tag) {
  if (tag < 0) fail(ErrorKind::usage, "recv with tag ", tag, ": tags begin at 0");
  return receive(OpType::RECVANYSOURCE, title("recvAnySource"), tensors, TaggedMessages::any_rank, tag);
}

Backend::Handle Backend::receive(OpType type, const char* title, Tensors& tensors, int peer, int tag) {
  const HostTensor host(only("recv", tensors));
  const Asked asked{type, title, tensors, tensors};
  check_written(asked);
  return begin_message(asked, [host, peer, tag](TaggedMessages& messages, Duration limit) {
    return receive_one(messages.shared_from_this(), host, peer, tag, limit);
  });
}

void Backend::check_peer(const char* operation, int peer, int tag) const {
  if (peer < 0 || peer >= size_ || peer == rank_) {
    fail(ErrorKind::usage, operation, " between rank ", rank_, " and rank ", peer, ": the group has ranks 0 to ",
         size_ - 1, ", and none sends to itself");
  }
  if (tag < 0) fail(ErrorKind::usage, operation, " with tag ", tag, ": tags begin at 0");
}

Task<int> Backend::send_one(std::shared_ptr<TaggedMessages> messages, HostTensor host, int peer, int tag,
                            Duration limit) {
  Task<> sending = messages->send(peer, tag, host.bytes(), code_of(host), limit);
  co_await std::move(sending);
  co_return -1;
}

Task<int> Backend::receive_one(std::shared_ptr<TaggedMessages> messages, HostTensor host, int peer, int tag,
                               Duration limit) {
  Task<int> receiving = messages->receive(peer, tag, host.bytes(), code_of(host), limit);
  const int sender = co_await std::move(receiving);
  host.give_back();
  co_return sender;
}

Backend::Handle Backend::barrier(const ::c10d::BarrierOptions& options) {
  std::vector<std::shared_ptr<Event>> before;
  {
    const std::lock_guard lock(order_);
    const std::vector<std::shared_ptr<Event>>& last = members().order->last;
    before.assign(last.begin(), last.end());
  }
  return begin(asked_by(options, OpType::BARRIER, title("barrier"), {}, {}),
               [before](Ground ground) { return meet_after(ground, before); });
}

void Backend::meet_for(const char* name) {
  Asked asked{OpType::BARRIER, name, {}, {}};
  asked.is_async = false;
  begin(asked, [name](Ground ground) { return meet(ground, name); });
}

Task<> Backend::meet_after(Ground ground, std::vector<std::shared_ptr<Event>> before) {
  for (const std::shared_ptr<Event>& event : before) {
    if (event && !event->is_set()) co_await event->wait();
  }
  Task<> meeting = meet(ground);
  co_await std::move(meeting);
}

Task<> Backend::one_by_one(Ground ground, std::vector<Operation> operations) {
  for (const Operation& operation : operations) {
    Task<> running = operation(ground);
    co_await std::move(running);
  }
}

}  // namespace ripieno::c10d
