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

void copy(Bytes into, Bytes from) {
  require(into.size() == from.size(), "a copy of ", from.size(), " bytes into ", into.size());
  if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
}

constexpr std::size_t longest_label = 19;  // transport::Message::operation

/// What messages carry, by which ranks that differ are told.
std::string label(const std::string& operation) { return operation.substr(0, longest_label); }

/// The label of an operation that goes in pieces, or of one of no elements, which then still meets the others: ranks
/// whose tensors differ in size may have pieces of one size.
std::string in_pieces(std::string_view label, std::size_t pieces) {
  if (pieces == 1) return std::string(label);
  const std::string count = text("/", pieces);
  return text(label.substr(0, longest_label - count.size()), count);
}

/// Of so many bytes: 0 of none, 1 where they are not cut.
std::size_t pieces_of(std::size_t bytes, std::size_t piece) {
  return bytes == 0 ? 0 : piece == 0 ? 1 : (bytes + piece - 1) / piece;
}

/// For labels: a type that travels as bytes.
std::string type_of(at::ScalarType type) { return number_type(type) ? "" : text(" ", at::toString(type)); }
std::string type_of(const HostTensor& tensor) { return type_of(tensor.host().scalar_type()); }

/// Moves whole parts along a route.
Task<> move_parts(Ground ground, const Route* route, const Parts* from, const Parts* into, int root,
                  std::string operation) {
  const transport::Message message{ground.comm.channel(ground.channel, observe::Purpose::exchange), operation};
  PartsPayload payload(ground.comm, message, *from, *into);
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
  options.weight = combining.factor;
  const Route& route = route_for(ground, numbers);
  // Numbers of a user's own memory are copied for their peers: in pieces that stay in the cache.
  constexpr std::size_t piece = 512 << 10;
  options.segment_bytes = route.name == "ring"                        ? ground.tuning->segment_bytes
                          : route.name == collective::two_phase::name ? piece
                                                                      : 0;
  const std::string called = in_pieces(combining.label, pieces_of(numbers.size_bytes(), options.segment_bytes));
  options.operation = called;
  double nothing = 0;
  if (numbers.count == 0) numbers = NumberSpan(&nothing, 1, numbers.type);
  const std::size_t most = route.name == collective::two_phase::name
                               ? collective::parts_of_a_channel * piece / size_of(numbers.type)
                               : numbers.count;
  std::size_t begin = 0;
  do {
    const std::size_t end = std::min(numbers.count, begin + most);
    const NumberSpan part = numbers.slice(begin, end);
    Task<> reducing = collective::all_reduce(route, ground.comm, part, options);
    co_await std::move(reducing);
    if (combining.divisor != 1) numeric::finish_mean(part, combining.divisor);
    begin = end;
  } while (begin < numbers.count);
}

Task<> gather_all(Ground ground, Parts outputs, HostTensor input, std::string operation) {
  copy(outputs[ground.comm.rank()], input.bytes());
  Task<> moving = move_parts(ground, &collective::find_route("ring", Collective::all_gather), &outputs, &outputs, 0,
                             label(operation));
  co_await std::move(moving);
  outputs.give_back();
}

/// Every rank's tensor, on all ranks.
Task<std::vector<at::Tensor>> all_of(Ground ground, HostTensor mine, std::string operation) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < ground.comm.size(); ++rank)
    all.push_back(at::empty_like(mine.host(), at::MemoryFormat::Contiguous));
  Task<> gathering = gather_all(ground, Parts(all), mine, operation);
  co_await std::move(gathering);
  co_return all;
}

/// The reduction of all ranks' tensors by LibTorch, in place of `tensor`'s elements on the host.
Task<> combine_all(Ground ground, HostTensor tensor, ::c10d::ReduceOp op, const char* operation) {
  Task<std::vector<at::Tensor>> gathering =
      all_of(ground, tensor, text(operation, type_of(tensor).substr(0, 5), " ", name_of(op)));
  const std::vector<at::Tensor> all = co_await std::move(gathering);
  assign(tensor.host(), combine(all, op));
}

Task<> all_reduce_one(Ground ground, HostTensor tensor, ::c10d::ReduceOp op) {
  const Combining combining = combining_of(op, tensor.host().scalar_type(), ground.comm.size());
  Task<> reducing = combining.on_the_way ? all_reduce_numbers(ground, tensor.numbers(), combining)
                                         : combine_all(ground, tensor, op, "all_reduce");
  co_await std::move(reducing);
  tensor.give_back();
}

/// Whether the tensors are sent as one.
bool go_together(const std::vector<HostTensor>& tensors) {
  constexpr std::size_t most = 1 << 20;  // bytes: above that, a copy costs more than a message
  std::size_t bytes = 0;
  for (const HostTensor& tensor : tensors) {
    bytes += tensor.bytes().size();
    if (tensor.host().scalar_type() != tensors[0].host().scalar_type()) return false;
  }
  return tensors.size() > 1 && bytes <= most;
}

/// The tensors' bytes one after the other, in a tensor of their type.
HostTensor joined(const std::vector<HostTensor>& tensors) {
  std::int64_t elements = 0;
  for (const HostTensor& tensor : tensors) elements += tensor.host().numel();
  HostTensor whole(at::empty({elements}, tensors[0].host().options()));
  std::size_t begin = 0;
  for (const HostTensor& tensor : tensors) {
    copy(whole.bytes().subspan(begin, tensor.bytes().size()), tensor.bytes());
    begin += tensor.bytes().size();
  }
  return whole;
}

}  // namespace

Task<> all_reduce(Ground ground, std::vector<HostTensor> tensors, ::c10d::ReduceOp op) {
  if (!go_together(tensors)) {
    for (const HostTensor& tensor : tensors) {
      Task<> reducing = all_reduce_one(ground, tensor, op);
      co_await std::move(reducing);
    }
    co_return;
  }
  const HostTensor whole = joined(tensors);
  Task<> reducing = all_reduce_one(ground, whole, op);
  co_await std::move(reducing);
  std::size_t begin = 0;
  for (const HostTensor& tensor : tensors) {
    copy(tensor.bytes(), whole.bytes().subspan(begin, tensor.bytes().size()));
    tensor.give_back();
    begin += tensor.bytes().size();
  }
}

Task<> reduce(Ground ground, HostTensor tensor, ::c10d::ReduceOp op, int root) {
  const bool is_root = ground.comm.rank() == root;
  // A rank on the way keeps partial sums in it.
  const HostTensor mine = is_root ? tensor : joined({tensor});
  const Combining combining = combining_of(op, mine.host().scalar_type(), ground.comm.size());
  if (combining.on_the_way) {
    collective::ExecuteOptions options = options_on(ground, mine.numbers().type);
    options.reduction = *combining.on_the_way;
    options.weight = combining.factor;
    options.root = root;
    const std::string operation = label(text("reduce ", name_of(op), " ", root));
    options.operation = operation;
    Task<> reducing =
        collective::run_collective(collective::default_route(Collective::reduce), ground.comm, mine.numbers(), options);
    co_await std::move(reducing);
    if (combining.divisor != 1 && is_root) numeric::finish_mean(mine.numbers(), combining.divisor);
  } else {
    Task<> combining_all = combine_all(ground, mine, op, "reduce");
    co_await std::move(combining_all);
  }
  if (is_root) tensor.give_back();
}

Task<> reduce_scatter(Ground ground, HostTensor output, Parts inputs, ::c10d::ReduceOp op) {
  const int rank = ground.comm.rank(), size = ground.comm.size();
  const Combining combining = combining_of(op, output.host().scalar_type(), size);
  const std::size_t part = inputs[0].size();
  bool alike = true;
  for (int i = 0; i < size; ++i) alike = alike && inputs[i].size() == part;
  if (combining.on_the_way && alike) {
    const std::size_t bytes = part * static_cast<std::size_t>(size);
    const Scratch memory = scratch(bytes);
    const Bytes all(memory.get(), bytes);
    for (int i = 0; i < size; ++i) copy(all.subspan(static_cast<std::size_t>(i) * part, part), inputs[i]);
    const DType type = output.numbers().type;
    const NumberSpan numbers(all.data(), bytes / size_of(type), type);
    collective::ExecuteOptions options = options_on(ground, type);
    options.reduction = *combining.on_the_way;
    options.weight = combining.factor;
    const std::string operation = label(text("reduce_scatter ", name_of(op)));
    options.operation = operation;
    Task<> reducing = collective::run_collective(collective::find_route("ring", Collective::reduce_scatter),
                                                 ground.comm, numbers, options);
    co_await std::move(reducing);
    copy(output.bytes(), all.subspan(static_cast<std::size_t>(rank) * part, part));
    if (combining.divisor != 1) numeric::finish_mean(output.numbers(), combining.divisor);
  } else {
    // One part after the other, each to its rank.
    std::vector<HostTensor> parts;
    for (int i = 0; i < size; ++i) {
      const auto elements = static_cast<std::int64_t>(inputs[i].size() / output.host().element_size());
      parts.emplace_back(at::empty({elements}, output.host().options()));
      copy(parts.back().bytes(), inputs[i]);
    }
    for (int i = 0; i < size; ++i) {
      const HostTensor& one = parts[static_cast<std::size_t>(i)];
      Task<> reducing = reduce(ground, one, op, i);
      co_await std::move(reducing);
      if (i == rank) copy(output.bytes(), one.bytes());
    }
  }
  output.give_back();
}

Task<> broadcast(Ground ground, HostTensor tensor, int root) {
  NumberSpan numbers = tensor.numbers();
  collective::ExecuteOptions options = options_on(ground, numbers.type);
  options.root = root;
  options.segment_bytes = ground.tuning->segment_bytes;
  const std::string operation = in_pieces(label(text("broadcast ", root, type_of(tensor))),
                                          pieces_of(numbers.size_bytes(), options.segment_bytes));
  options.operation = operation;
  double nothing = 0;
  if (numbers.count == 0) numbers = NumberSpan(&nothing, 1, numbers.type);
  Task<> sending = collective::broadcast(ground.comm, numbers, options);
  co_await std::move(sending);
  if (ground.comm.rank() != root) tensor.give_back();
}

Task<> all_gather(Ground ground, Parts outputs, HostTensor input) {
  return gather_all(ground, std::move(outputs), input, text("all_gather", type_of(input)));
}

Task<> gather(Ground ground, Parts outputs, HostTensor input, int root) {
  const int rank = ground.comm.rank();
  const Parts from(input, ground.comm.size());  // only its own part is sent
  if (rank == root) copy(outputs[root], input.bytes());
  Task<> moving = move_parts(ground, &collective::find_route("flat", Collective::gather), &from, &outputs, root,
                             label(text("gather ", root, type_of(input))));
  co_await std::move(moving);
  if (rank == root) outputs.give_back();
}

Task<> scatter(Ground ground, HostTensor output, Parts inputs, int root) {
  const int rank = ground.comm.rank();
  const Parts into(output, ground.comm.size());  // only its own part is received
  if (rank == root) copy(output.bytes(), inputs[root]);
  Task<> moving = move_parts(ground, &collective::find_route("flat", Collective::scatter), &inputs, &into, root,
                             label(text("scatter ", root, type_of(output))));
  co_await std::move(moving);
  output.give_back();
}

Task<> all_to_all(Ground ground, Parts outputs, Parts inputs) {
  copy(outputs[ground.comm.rank()], inputs[ground.comm.rank()]);
  Task<> moving = move_parts(ground, &collective::find_route("pairwise", Collective::all_to_all), &inputs, &outputs, 0,
                             label("all_to_all" + type_of(inputs.scalar_type())));
  co_await std::move(moving);
  outputs.give_back();
}

namespace {

constexpr std::size_t most_dimensions = 64;

at::Tensor coalesced_on_host(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return tensor.detach().cpu().coalesce();
}

at::Tensor sum_of(const std::vector<at::Tensor>& indices, const std::vector<at::Tensor>& values,
                  const at::Tensor& like) {
  const at::NoGradGuard no_grad;
  return at::sparse_coo_tensor(at::cat(indices, 1), at::cat(values, 0), like.sizes(), like.options()).coalesce();
}

}  // namespace

Task<> all_reduce_sparse(Ground ground, at::Tensor tensor, ::c10d::ReduceOp op) {
  const at::Tensor mine = coalesced_on_host(tensor);
  const at::Tensor indices = mine.indices().contiguous(), values = mine.values().contiguous();

  // How many entries each rank has, and whether the tensors are of one shape.
  std::vector<std::int64_t> facts{mine._nnz(), mine.sparse_dim(), mine.dim()};
  facts.insert(facts.end(), mine.sizes().begin(), mine.sizes().end());
  facts.resize(3 + most_dimensions);
  const at::Tensor shape = at::tensor(facts);
  Task<std::vector<at::Tensor>> comparing = all_of(ground, HostTensor(shape), "sparse all_reduce");
  const std::vector<at::Tensor> shapes = co_await std::move(comparing);
  std::vector<at::Tensor> all_indices, all_values;
  for (int rank = 0; rank < ground.comm.size(); ++rank) {
    const at::Tensor& its = shapes[static_cast<std::size_t>(rank)];
    if (!its.slice(0, 1).equal(shape.slice(0, 1))) {
      fail(ErrorKind::mismatch, "rank ", ground.comm.rank(), " has a sparse tensor of sizes ", text(mine.sizes()),
           ", but rank ", rank, " one of sizes ", text(its.slice(0, 3, 3 + its[2].item<std::int64_t>())));
    }
    const auto count = its[0].item<std::int64_t>();
    all_indices.push_back(at::empty({indices.size(0), count}, indices.options()));
    std::vector<std::int64_t> sizes = values.sizes().vec();
    sizes[0] = count;
    all_values.push_back(at::empty(sizes, values.options()));
  }
  Task<> of_indices = all_gather(ground, Parts(all_indices), HostTensor(indices));
  co_await std::move(of_indices);
  Task<> of_values = all_gather(ground, Parts(all_values), HostTensor(values));
  co_await std::move(of_values);
  assign(tensor, sum_of(all_indices, all_values, mine));
}

Task<> meet(Ground ground, std::string operation) {
  const std::string called = label(operation);
  float nothing = 0;
  Combining combining;
  combining.label = called;
  Task<> meeting = all_reduce_numbers(ground, NumberSpan(std::span<float>(&nothing, 1)), combining);
  co_await std::move(meeting);
}

Task<> compare(Ground ground, std::uint64_t code, bool* alike) {
  constexpr int half = 32;  // bits, which fp64 holds exactly
  const auto low = static_cast<double>(static_cast<std::uint32_t>(code)), high = static_cast<double>(code >> half);
  double extremes[] = {low, high, -low, -high};
  Combining combining;
  combining.on_the_way = collective::Reduction::maximum;
  combining.label = "comparison";
  Task<> comparing = all_reduce_numbers(ground, NumberSpan(std::span<double>(extremes)), combining);
  co_await std::move(comparing);
  *alike = extremes[0] == -extremes[2] && extremes[1] == -extremes[3];
}

}  // namespace ripieno::c10d
