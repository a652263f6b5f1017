#include "ripieno/collective/execute.h"

#include "ripieno/core/async.h"
#include "ripieno/core/kernels.h"

namespace ripieno {
namespace {

/// Steps [first, last) of a route over one buffer, one after the other.
Task<> run_steps(const Route* route, Communicator comm, NumberSpan data, Message message, int first, int last) {
  Endpoint& endpoint = comm.endpoint();
  for (int k = first; k < last; ++k) {
    Step step = route->step(comm.rank(), comm.world(), data.count, k);
    if (step.send && step.send->range.size() == 0) step.send.reset();
    if (step.receive && step.receive->range.size() == 0) step.receive.reset();

    NumberSpan part;
    Message out = message, in = message;
    if (step.send) {
      part = data.slice(step.send->range.begin, step.send->range.end);
      if (step.send->how == Reduce::replace) round_through(part, message.type);
      out.count = part.count;
    }
    NumberSpan into;
    if (step.receive) {
      into = data.slice(step.receive->range.begin, step.receive->range.end);
      in.count = into.count;
    }
    if (step.send && step.receive) {
      Task<> sending = send_numbers(&endpoint, comm.member(step.send->peer), out, part);
      Task<> receiving = endpoint.receive(comm.member(step.receive->peer), in, into, step.receive->how);
      Task<> together = both(endpoint.runtime(), std::move(sending), std::move(receiving), comm.ending());
      co_await std::move(together);
    } else if (step.send) {
      co_await send_numbers(&endpoint, comm.member(step.send->peer), out, part);
    } else if (step.receive) {
      co_await endpoint.receive(comm.member(step.receive->peer), in, into, step.receive->how);
    }
  }
}

/// Every send of an at_once route, in the order of its steps: the card would send one after the other anyway, and so the
/// ranks' k-th sends, which all go to different ranks, do not meet at a receiver.
Task<> send_in_turn(const Route* route, Communicator comm, NumberSpan own, Message message) {
  for (int k = 0; k < route->steps(comm.world()); ++k) {
    const Step step = route->step(comm.rank(), comm.world(), own.count, k);
    if (!step.send || step.send->range.size() == 0) continue;
    message.count = step.send->range.size();
    const NumberSpan part = own.slice(step.send->range.begin, step.send->range.end);
    co_await send_numbers(&comm.endpoint(), comm.member(step.send->peer), message, part);
  }
}

/// An at_once route over one buffer.
Task<> run_at_once(const Route* route, Communicator comm, NumberSpan data, Message message) {
  if (comm.size() == 1) co_return;
  // 1. Room for each member's numbers as they are on the wire, this one's among them.
  const std::size_t bytes = data.data ? data.count * size_of(message.type) : 0;
  const Scratch memory = scratch(bytes * static_cast<std::size_t>(comm.size()));
  std::vector<NumberSpan> of;
  for (int i = 0; i < comm.size(); ++i) {
    of.emplace_back(data.data ? memory.get() + bytes * static_cast<std::size_t>(i) : nullptr, data.count, message.type);
  }
  convert(of[comm.rank()], data);

  // 2. All receives are asked for, while the sends follow each other.
  Endpoint* endpoint = &comm.endpoint();
  std::vector<Task<>> transfers;
  for (int k = 0; k < route->steps(comm.world()); ++k) {
    const Step step = route->step(comm.rank(), comm.world(), data.count, k);
    if (!step.receive || step.receive->range.size() == 0) continue;
    const auto& [peer, range, how] = *step.receive;
    message.count = range.size();
    transfers.push_back(
        endpoint->receive(comm.member(peer), message, of[peer].slice(range.begin, range.end), Reduce::replace));
  }
  transfers.push_back(send_in_turn(route, comm, of[comm.rank()], message));
  Task<> together = all(comm.runtime(), std::move(transfers), comm.ending());
  co_await std::move(together);

  // 3. The sum in the order of the ranks, which is the same everywhere: so are its bits.
  convert(data, of[0]);
  for (int i = 1; i < comm.size(); ++i) add(data, of[i]);
}

}  // namespace

Task<> send_numbers(Endpoint* endpoint, int peer, Message message, NumberSpan numbers) {
  if (numbers.type == message.type) {
    co_await endpoint->send(peer, message, numbers.bytes());
    co_return;
  }
  const Scratch encoded = scratch(numbers.data ? numbers.count * size_of(message.type) : 0);
  convert(NumberSpan(numbers.data ? encoded.get() : nullptr, numbers.count, message.type), numbers);
  const ConstBytes payload(numbers.data ? encoded.get() : nullptr, numbers.count * size_of(message.type));
  co_await endpoint->send(peer, message, payload);
}

std::vector<Range> segments(std::size_t elements, DType type, std::size_t segment_bytes) {
  const std::size_t bytes = elements * size_of(type);
  const std::size_t wanted = segment_bytes ? (bytes + segment_bytes - 1) / segment_bytes : 1;
  const int count = static_cast<int>(std::clamp<std::size_t>(wanted, 1, max_segments));
  std::vector<Range> parts;
  for (int i = 0; i < count; ++i) parts.push_back(chunk(elements, count, i));
  return parts;
}

namespace {

/// One part of a buffer, by the route's steps.
Task<> run_part(const Route* route, Communicator comm, NumberSpan data, Range range, Message message, ExecuteOptions options) {
  const NumberSpan part = data.slice(range.begin, range.end);
  if (options.weight != 1) scale(part, options.weight);
  if (route->at_once) {
    co_await run_at_once(route, comm, part, message);
  } else {
    co_await run_steps(route, comm, part, message, 0, route->steps(comm.world()));
  }
  if (options.done) options.done(range);
}

/// All parts side by side.
Task<> run_route(const Route* route, Communicator comm, NumberSpan data, ExecuteOptions options) {
  std::vector<Task<>> parts;
  for (const Range range : segments(data.count, data.type, options.segment_bytes)) {
    const auto id = options.channel * max_segments + static_cast<std::uint32_t>(parts.size());
    const Message message{{options.purpose, id, comm.scope()}, route->name, options.wire, 0, options.urgency};
    parts.push_back(run_part(route, comm, data, range, message, options));
  }
  if (parts.size() == 1) {
    co_await std::move(parts.front());
    co_return;
  }
  Task<> together = all(comm.runtime(), std::move(parts), comm.ending());
  co_await std::move(together);
}

/// Every part of a buffer after the other, by what the endpoint has of its own.
Task<> run_engine(Endpoint* endpoint, NumberSpan data, Message message, ExecuteOptions options) {
  const std::vector<Range> parts = segments(data.count, data.type, options.segment_bytes);
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    const NumberSpan part = data.slice(parts[i].begin, parts[i].end);
    Message one = message;
    one.channel.id += i;
    one.count = part.count;
    if (options.weight != 1) scale(part, options.weight);
    co_await endpoint->run_engine(Collective::all_reduce, one, part);
    if (options.done) options.done(parts[i]);
  }
}

}  // namespace

Task<> all_reduce(const Route& route, Communicator comm, NumberSpan data, ExecuteOptions options) {
  const Message whole{{options.purpose, options.channel * max_segments, comm.scope()}, route.name, options.wire, data.count};
  const EngineOperation* const engine = comm.find_engine(Collective::all_reduce, data.type, whole.channel);
  if (engine && engine->route == route.name) {
    // Of a few bytes, a coroutine of our own would be a good part of the time.
    if (options.segment_bytes == 0 && options.weight == 1 && !options.done) return comm.endpoint().run_engine(Collective::all_reduce, whole, data);
    return run_engine(&comm.endpoint(), data, whole, std::move(options));
  }
  return run_route(&route, comm, data, std::move(options));
}

Task<> broadcast(Communicator comm, NumberSpan data, ExecuteOptions options) {
  const Route* tree = &find_route("reduce-broadcast");
  const int steps = tree->steps(comm.size());
  const Message message{{options.purpose, options.channel * max_segments, comm.scope()}, "broadcast", options.wire, 0};
  return run_steps(tree, comm, data, message, steps / 2, steps);
}

}  // namespace ripieno
