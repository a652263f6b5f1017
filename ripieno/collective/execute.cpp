#include "ripieno/collective/execute.h"

#include <algorithm>

#include "ripieno/collective/native.h"
#include "ripieno/collective/numbers_payload.h"
#include "ripieno/core/async.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::collective {
namespace {

/// One message after the other.
Task<> send_in_turn(const Step* step, Payload* payload) {
  for (const Transfer& out : step->sends) co_await payload->send(out);
}

Task<> take_step(const Step* step, Communicator comm, Payload* payload) {
  std::vector<Task<>> transfers;
  for (const Transfer& in : step->receives) transfers.push_back(payload->receive(in));
  transfers.push_back(send_in_turn(step, payload));
  Task<> together = all(comm.runtime(), std::move(transfers), comm.ending());
  co_await std::move(together);
}

bool is_empty(const Transfer& one) { return one.range.size() == 0; }

/// The operation's name in messages, which reveals a peer that runs another collective or another route of an
/// all-reduce.
std::string_view operation_of(const Route& route, const ExecuteOptions& options) {
  if (!options.operation.empty()) return options.operation;
  return route.collective == transport::Collective::all_reduce ? route.name : transport::name(route.collective);
}

/// Whether the parts of a buffer can go through the collective's schedules separately.
bool is_cut(transport::Collective collective) {
  return collective == transport::Collective::all_reduce || collective == transport::Collective::broadcast ||
         collective == transport::Collective::reduce;
}

numeric::Reduce how_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::mean:
      return numeric::Reduce::add;
    case Reduction::product:
      return numeric::Reduce::multiply;
    case Reduction::minimum:
      return numeric::Reduce::minimum;
    case Reduction::maximum:
      return numeric::Reduce::maximum;
  }
  return numeric::Reduce::add;
}

/// Turns the final sums that a rank holds into means.
void divide_outcome(const Route& route, World world, int rank, NumberSpan part) {
  const Range own = chunk(part.count, world.ranks, rank);
  if (route.collective == transport::Collective::reduce_scatter) part = part.slice(own.begin, own.end);
  const bool has_outcome = route.collective == transport::Collective::all_reduce ||
                           route.collective == transport::Collective::reduce_scatter ||
                           (route.collective == transport::Collective::reduce && rank == world.root);
  if (has_outcome) numeric::divide(part, world.ranks);
}

/// One part of a buffer.
Task<> run_part(const Route* route, Communicator comm, NumberSpan data, Range range, transport::Message message,
                ExecuteOptions options) {
  const NumberSpan part = data.slice(range.begin, range.end);
  if (options.weight != 1) numeric::scale(part, options.weight);
  World world = comm.world();
  world.root = options.root;
  NumbersPayload payload(comm, part, message, how_of(options.reduction));
  co_await run_schedule(route, comm, world, &payload);
  if (options.reduction == Reduction::mean) divide_outcome(*route, world, comm.rank(), part);
  if (options.done) options.done(range);
}

/// All parts side by side.
Task<> run_parts(const Route* route, Communicator comm, NumberSpan data, ExecuteOptions options) {
  const Communicator::Use use = comm.use(comm.channel(options.channel, options.purpose));
  std::vector<Task<>> parts;
  const DType wire = is_float(data.type) ? options.wire : data.type;
  for (const Range range : segments(data.count, data.type, is_cut(route->collective) ? options.segment_bytes : 0)) {
    const auto id = options.channel * parts_of_a_channel + static_cast<std::uint32_t>(parts.size());
    const transport::Message message{
        {options.purpose, id, comm.scope()}, operation_of(*route, options), wire, 0, options.urgency};
    parts.push_back(run_part(route, comm, data, range, message, options));
  }
  if (parts.size() == 1) {
    co_await std::move(parts.front());
    co_return;
  }
  Task<> together = all(comm.runtime(), std::move(parts), comm.ending());
  co_await std::move(together);
}

/// All parts of a buffer one after the other, by the endpoint's engine.
Task<> run_engine(const Route* route, Communicator comm, NumberSpan data, transport::Message message,
                  ExecuteOptions options) {
  const transport::EngineTerms terms{how_of(options.reduction), options.root};
  World world = comm.world();
  world.root = options.root;
  for (const Range range : segments(data.count, data.type, is_cut(route->collective) ? options.segment_bytes : 0)) {
    const NumberSpan part = data.slice(range.begin, range.end);
    message.count = part.count;
    if (options.weight != 1) numeric::scale(part, options.weight);
    co_await comm.endpoint().run_engine(route->collective, message, part, terms);
    if (options.reduction == Reduction::mean) divide_outcome(*route, world, comm.rank(), part);
    if (options.done) options.done(range);
  }
}

/// A lone rank has nothing to exchange, along whatever route.
bool is_alone(const Route& route, const Communicator& comm) { return native::is(route) && comm.size() == 1; }

/// Whether the endpoint's engine does what the route and the options ask for. Throws if only that could, and does not.
bool is_for_engine(const Route& route, const Communicator& comm, const NumberSpan& data,
                   const transport::Message& message, const ExecuteOptions& options) {
  const auto* const engine = comm.find_engine(route.name, route.collective, data.type, message.channel);
  if (!native::is(route)) return engine && options.reduction == Reduction::sum;
  if (is_float(data.type) && options.wire != data.type) {
    fail(ErrorKind::usage, "route native hands ", name(data.type), " over as they are, not as ", name(options.wire),
         ": take another route, or send them as they are");
  }
  if (engine) return true;
  const transport::Endpoint& endpoint = comm.endpoint();
  fail(ErrorKind::usage, "route native is MPI's own ", transport::name(route.collective),
       ", which the communicator of ",
       "all ranks has over transport mpi, for fp32, fp64, int64, int32 and uint8; here it is asked for ",
       name(data.type), " on ", comm.scope() == 0 ? "that of " : "one that was made later, of ", comm.size(), " of ",
       endpoint.size(), " ranks, over ",
       endpoint.size() == 1 ? "no transport" : endpoint.way(endpoint.rank() == 0 ? 1 : 0), ": take another route");
}

}  // namespace

const char* name(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::mean:
      return "mean";
    case Reduction::product:
      return "product";
    case Reduction::minimum:
      return "minimum";
    case Reduction::maximum:
      return "maximum";
  }
  return "?";
}

Task<> run_schedule(const Route* route, Communicator comm, World world, Payload* payload) {
  std::exception_ptr error;
  const auto on_error = comm.ending();
  try {
    for (int k = 0; k < route->steps(world); ++k) {
      Step step = route->step(comm.rank(), world, payload->units(), k);
      step.sends.erase_if(is_empty);
      step.receives.erase_if(is_empty);
      if (step.sends.empty() && step.receives.empty()) continue;
      const bool is_plain = step.sends.size() <= 1 && step.receives.size() <= 1 &&
                            (step.sends.empty() || step.receives.empty() || !overlaps(step.receives[0], step.sends));
      if (!is_plain) {
        payload->begin(step);
        co_await take_step(&step, comm, payload);
        payload->end(step);
      } else if (step.receives.empty()) {
        co_await payload->send(step.sends[0]);
      } else if (step.sends.empty()) {
        co_await payload->receive(step.receives[0]);
      } else {
        co_await payload->exchange(step.sends[0], step.receives[0], on_error);
      }
      for (const Transfer& in : step.receives) payload->arrived(in);
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) co_return;
  comm.abort(error);
  std::rethrow_exception(error);
}

Task<> send_numbers(transport::Endpoint* endpoint, int peer, transport::Message message, NumberSpan numbers) {
  if (numbers.type == message.type) {
    co_await endpoint->send(peer, message, numbers.bytes());
    co_return;
  }
  const Scratch encoded = scratch(numbers.data ? numbers.count * size_of(message.type) : 0);
  numeric::convert(NumberSpan(numbers.data ? encoded.get() : nullptr, numbers.count, message.type), numbers);
  const ConstBytes payload(numbers.data ? encoded.get() : nullptr, numbers.count * size_of(message.type));
  co_await endpoint->send(peer, message, payload);
}

std::vector<Range> segments(std::size_t elements, DType type, std::size_t segment_bytes) {
  const std::size_t bytes = elements * size_of(type);
  const std::size_t wanted = segment_bytes ? (bytes + segment_bytes - 1) / segment_bytes : 1;
  const int count = static_cast<int>(std::clamp<std::size_t>(wanted, 1, parts_of_a_channel));
  std::vector<Range> parts;
  for (int i = 0; i < count; ++i) parts.push_back(chunk(elements, count, i));
  return parts;
}

Task<> run_collective(const Route& route, Communicator comm, NumberSpan data, ExecuteOptions options) {
  require(options.root >= 0 && options.root < comm.size(), transport::name(route.collective), " from rank ",
          options.root, " of ", comm.size());
  if (route.collective == transport::Collective::all_reduce) return all_reduce(route, comm, data, std::move(options));
  if (is_alone(route, comm)) return run_collective(default_route(route.collective), comm, data, std::move(options));
  const transport::Message whole{{options.purpose, options.channel * parts_of_a_channel, comm.scope()},
                                 operation_of(route, options),
                                 data.type,
                                 data.count};
  if (is_for_engine(route, comm, data, whole, options))
    return run_engine(&route, comm, data, whole, std::move(options));
  return run_parts(&route, comm, data, std::move(options));
}

Task<> all_reduce(const Route& route, Communicator comm, NumberSpan data, ExecuteOptions options) {
  const transport::Message whole{{options.purpose, options.channel * parts_of_a_channel, comm.scope()},
                                 operation_of(route, options),
                                 is_float(data.type) ? options.wire : data.type,
                                 data.count};
  if (is_alone(route, comm)) return all_reduce(default_route(route.collective), comm, data, std::move(options));
  if (!is_for_engine(route, comm, data, whole, options)) return run_parts(&route, comm, data, std::move(options));
  // For a few bytes, another coroutine would take a good part of the time.
  if (options.segment_bytes == 0 && options.weight == 1 && !options.done && options.reduction == Reduction::sum)
    return comm.endpoint().run_engine(transport::Collective::all_reduce, whole, data);
  return run_engine(&route, comm, data, whole, std::move(options));
}

Task<> broadcast(Communicator comm, NumberSpan data, ExecuteOptions options) {
  return run_collective(default_route(transport::Collective::broadcast), comm, data, std::move(options));
}

}  // namespace ripieno::collective
