#include "ripieno/c10d/collectives.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ripieno/c10d/combining.h"
#include "ripieno/c10d/parts_payload.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/two_phase.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::c10d {
namespace {

using collective::Route;
using transport::Collective;

transport::Message message_on(const Ground& ground, Collective collective) {
  return {ground.comm.channel(ground.channel, observe::Purpose::exchange), transport::name(collective)};
}

void copy(Bytes into, Bytes from) {
  require(into.size() == from.size(), "a copy of ", from.size(), " bytes into ", into.size());
  if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
}

/// Moves whole parts along a route.
Task<> move_parts(Ground ground, const Route* route, const Parts* from, const Parts* into, int root) {
  PartsPayload payload(ground.comm, message_on(ground, route->collective), *from, *into);
  collective::World world = ground.comm.world();
  world.root = root;
  Task<> moving = collective::run_schedule(route, ground.comm, world, &payload);
  co_await std::move(moving);
}

collective::ExecuteOptions options_on(const Ground& ground, DType type) {
  collective::ExecuteOptions options;
  options.wire = type;
  options.channel = ground.channel;
  return options;
}

/// The endpoint's engine where it does the same (collective/two_phase.h), else the ring, or for few bytes a route of
/// fewer rounds.
const Route& route_for(const Ground& ground, const NumberSpan& numbers) {
  const auto channel = ground.comm.channel(ground.channel, observe::Purpose::exchange);
  const std::string_view in_place = collective::two_phase::name;
  if (ground.comm.find_engine(in_place, Collective::all_reduce, numbers.type, channel))
    return collective::find_route(in_place);
  const bool is_small = numbers.size_bytes() <= ground.tuning->small_bytes;
  return collective::find_route(is_small ? ground.tuning->small_route : "ring");
}

/// Sums, or combines otherwise, numbers of all ranks in place.
Task<> all_reduce_numbers(Ground ground, NumberSpan numbers, Combining combining) {
  collective::ExecuteOptions options = options_on(ground, numbers.type);
  options.reduction = *combining.on_the_way;
  if (combining.factor != 1) numeric::scale(numbers, combining.factor);
  const Route& route = route_for(ground, numbers);
  if (route.name == "ring") options.segment_bytes = ground.tuning->segment_bytes;
  Task<> reducing = collective::all_reduce(route, ground.comm, numbers, options);
  co_await std::move(reducing);
  if (combining.is_mean) numeric::divide(numbers, ground.comm.size());
}

/// Every rank's tensor, on all ranks.
Task<std::vector<at::Tensor>> all_of(Ground ground, at::Tensor mine) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < ground.comm.size(); ++rank)
    all.push_back(at::empty_like(mine, at::MemoryFormat::Contiguous));
  Task<> gathering = all_gather(ground, Parts(all), mine);
  co_await std::move(gathering);
  co_return all;
}

Task<> all_reduce_one(Ground ground, at::Tensor tensor, ::c10d::ReduceOp op) {
  const HostTensor host(tensor);
  const Combining combining = combining_of(op, host.host().scalar_type());
  if (combining.on_the_way) {
    Task<> reducing = all_reduce_numbers(ground, host.numbers(), combining);
    co_await std::move(reducing);
  } else {
    Task<std::vector<at::Tensor>> gathering = all_of(ground, host.host());
    const std::vector<at::Tensor> all = co_await std::move(gathering);
    const at::NoGradGuard no_grad;
    host.host().detach().copy_(combine(all, op));
  }
  host.give_back();
}

/// Whether the tensors are sent as one.
bool go_together(const std::vector<at::Tensor>& tensors) {
  constexpr std::int64_t most = 1 << 20;  // bytes: above that, a copy costs more than a message
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    bytes += static_cast<std::int64_t>(tensor.nbytes());
    if (tensor.scalar_type() != tensors[0].scalar_type() || tensor.device() != tensors[0].device()) return false;
  }
  return tensors.size() > 1 && bytes <= most;
}

}  // namespace

Task<> all_reduce(Ground ground, std::vector<at::Tensor> tensors, ::c10d::ReduceOp op) {
  if (!go_together(tensors)) {
    for (const at::Tensor& tensor : tensors) {
      Task<> reducing = all_reduce_one(ground, tensor, op);
      co_await std::move(reducing);
    }
    co_return;
  }
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.detach().reshape({-1}));
  const at::Tensor whole = at::cat(flat);
  Task<> reducing = all_reduce_one(ground, whole, op);
  co_await std::move(reducing);
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.detach().copy_(whole.narrow(0, begin, tensor.numel()).reshape(tensor.sizes()));
    begin += tensor.numel();
  }
}

Task<> reduce(Ground ground, at::Tensor tensor, ::c10d::ReduceOp op, int root) {
  const bool is_root = ground.comm.rank() == root;
  const HostTensor host(is_root ? tensor : tensor.detach().clone());  // a rank on the way keeps partial sums in it
  const Combining combining = combining_of(op, host.host().scalar_type());
  if (combining.on_the_way) {
    collective::ExecuteOptions options = options_on(ground, host.numbers().type);
    options.reduction = *combining.on_the_way;
    options.root = root;
    if (combining.factor != 1) numeric::scale(host.numbers(), combining.factor);
    Task<> reducing =
        collective::run_collective(collective::default_route(Collective::reduce), ground.comm, host.numbers(), options);
    co_await std::move(reducing);
    if (combining.is_mean && is_root) numeric::divide(host.numbers(), ground.comm.size());
  } else {
    Task<std::vector<at::Tensor>> gathering = all_of(ground, host.host());
    const std::vector<at::Tensor> all = co_await std::move(gathering);
    const at::NoGradGuard no_grad;
    host.host().detach().copy_(combine(all, op));
  }
  if (is_root) host.give_back();
}

Task<> reduce_scatter(Ground ground, at::Tensor output, Parts inputs, ::c10d::ReduceOp op) {
  const HostTensor mine(output);
  const int rank = ground.comm.rank(), size = ground.comm.size();
  const Combining combining = combining_of(op, mine.host().scalar_type());
  const std::size_t part = inputs[0].size();
  bool alike = true;
  for (int i = 0; i < size; ++i) alike = alike && inputs[i].size() == part;
  if (combining.on_the_way && alike) {
    const std::size_t bytes = part * static_cast<std::size_t>(size);
    const Scratch memory = scratch(bytes);
    const Bytes all(memory.get(), bytes);
    for (int i = 0; i < size; ++i) copy(all.subspan(static_cast<std::size_t>(i) * part, part), inputs[i]);
    const DType type = mine.numbers().type;
    const NumberSpan numbers(all.data(), bytes / size_of(type), type);
    collective::ExecuteOptions options = options_on(ground, type);
    options.reduction = *combining.on_the_way;
    if (combining.factor != 1) numeric::scale(numbers, combining.factor);
    Task<> reducing = collective::run_collective(collective::find_route("ring", Collective::reduce_scatter),
                                                 ground.comm, numbers, options);
    co_await std::move(reducing);
    copy(mine.bytes(), all.subspan(static_cast<std::size_t>(rank) * part, part));
    if (combining.is_mean) numeric::divide(mine.numbers(), size);
  } else {
    // One part after the other, each to its rank.
    for (int i = 0; i < size; ++i) {
      const auto elements = static_cast<std::int64_t>(inputs[i].size() / mine.host().element_size());
      const at::Tensor one = at::empty({elements}, mine.host().options());
      copy(HostTensor(one).bytes(), inputs[i]);
      Task<> reducing = reduce(ground, one, op, i);
      co_await std::move(reducing);
      if (i == rank) copy(mine.bytes(), HostTensor(one).bytes());
    }
  }
  mine.give_back();
}

Task<> broadcast(Ground ground, at::Tensor tensor, int root) {
  const HostTensor host(tensor);
  collective::ExecuteOptions options = options_on(ground, host.numbers().type);
  options.root = root;
  options.segment_bytes = ground.tuning->segment_bytes;
  Task<> sending = collective::broadcast(ground.comm, host.numbers(), options);
  co_await std::move(sending);
  host.give_back();
}

Task<> all_gather(Ground ground, Parts outputs, at::Tensor input) {
  const HostTensor mine(input);
  copy(outputs[ground.comm.rank()], mine.bytes());
  Task<> moving = move_parts(ground, &collective::find_route("ring", Collective::all_gather), &outputs, &outputs, 0);
  co_await std::move(moving);
  outputs.give_back();
}

Task<> gather(Ground ground, Parts outputs, at::Tensor input, int root) {
  const int rank = ground.comm.rank();
  const std::vector<at::Tensor> mine(static_cast<std::size_t>(ground.comm.size()), input);
  const Parts from(mine);  // only its own part is sent
  if (rank == root) copy(outputs[root], from[root]);
  Task<> moving = move_parts(ground, &collective::find_route("flat", Collective::gather), &from, &outputs, root);
  co_await std::move(moving);
  if (rank == root) outputs.give_back();
}

Task<> scatter(Ground ground, at::Tensor output, Parts inputs, int root) {
  const int rank = ground.comm.rank();
  const HostTensor mine(output);
  const std::vector<at::Tensor> all(static_cast<std::size_t>(ground.comm.size()), mine.host());
  const Parts into(all);  // only its own part is received
  if (rank == root) copy(into[root], inputs[root]);
  Task<> moving = move_parts(ground, &collective::find_route("flat", Collective::scatter), &inputs, &into, root);
  co_await std::move(moving);
  mine.give_back();
}

Task<> all_to_all(Ground ground, Parts outputs, Parts inputs) {
  copy(outputs[ground.comm.rank()], inputs[ground.comm.rank()]);
  Task<> moving = move_parts(ground, &collective::find_route("pairwise", Collective::all_to_all), &inputs, &outputs, 0);
  co_await std::move(moving);
  outputs.give_back();
}

Task<> all_reduce_sparse(Ground ground, at::Tensor tensor, ::c10d::ReduceOp op) {
  if (op != ::c10d::ReduceOp::SUM) fail(ErrorKind::usage, "sparse tensors can be summed only");
  const at::NoGradGuard no_grad;
  const at::Tensor mine = tensor.detach().coalesce().cpu();
  const at::Tensor indices = mine.indices().contiguous(), values = mine.values().contiguous();

  // How many entries each rank has, and whether the tensors are of one shape.
  at::Tensor shape = at::empty({4}, at::kLong);
  shape[0] = mine._nnz();
  shape[1] = mine.sparse_dim();
  shape[2] = mine.dim();
  shape[3] = mine.numel();
  Task<std::vector<at::Tensor>> comparing = all_of(ground, shape);
  const std::vector<at::Tensor> shapes = co_await std::move(comparing);
  std::vector<at::Tensor> all_indices, all_values;
  for (int rank = 0; rank < ground.comm.size(); ++rank) {
    const at::Tensor& its = shapes[static_cast<std::size_t>(rank)];
    if (!its.slice(0, 1).equal(shape.slice(0, 1))) {
      fail(ErrorKind::mismatch, "rank ", ground.comm.rank(), " has a sparse tensor of sizes ", text(mine.sizes()),
           ", but rank ", rank, " one of ", its[2].item<std::int64_t>(), " dimensions, ", its[1].item<std::int64_t>(),
           " of them sparse, and ", its[3].item<std::int64_t>(), " elements");
    }
    const auto count = its[0].item<std::int64_t>();
    all_indices.push_back(at::empty({indices.size(0), count}, indices.options()));
    std::vector<std::int64_t> sizes = values.sizes().vec();
    sizes[0] = count;
    all_values.push_back(at::empty(sizes, values.options()));
  }
  Task<> of_indices = all_gather(ground, Parts(all_indices), indices);
  co_await std::move(of_indices);
  Task<> of_values = all_gather(ground, Parts(all_values), values);
  co_await std::move(of_values);
  const at::Tensor sum =
      at::sparse_coo_tensor(at::cat(all_indices, 1), at::cat(all_values, 0), mine.sizes(), mine.options()).coalesce();
  tensor.copy_(sum);  // detached, a sparse tensor would not change
}

Task<> meet(Ground ground) {
  float nothing = 0;
  Task<> meeting = all_reduce_numbers(ground, NumberSpan(std::span<float>(&nothing, 1)), {});
  co_await std::move(meeting);
}

}  // namespace ripieno::c10d
