#include "ripieno/collective/execute.h"

#include "ripieno/collective/reduce_broadcast.h"
#include "ripieno/core/async.h"
#include "ripieno/core/kernels.h"

namespace ripieno {
namespace {

/// Steps [first, last) of a route over one buffer, one after the other.
Task<> run_steps(const Route* route, Group group, FloatSpan data, Message message, int first, int last) {
  Endpoint& endpoint = group.endpoint();
  auto revoke = [&endpoint](std::exception_ptr error) { endpoint.revoke(error); };
  for (int k = first; k < last; ++k) {
    Step step = route->step(group.rank(), group.size(), data.count, k);
    if (step.send && step.send->range.size() == 0) step.send.reset();
    if (step.receive && step.receive->range.size() == 0) step.receive.reset();

    FloatSpan part;
    Message out = message, in = message;
    if (step.send) {
      part = data.slice(step.send->range.begin, step.send->range.end);
      if (step.send->how == Reduce::replace) round_through(part, message.type);
      out.count = part.count;
    }
    FloatSpan into;
    if (step.receive) {
      into = data.slice(step.receive->range.begin, step.receive->range.end);
      in.count = into.count;
    }
    if (step.send && step.receive) {
      Task<> sending = send_numbers(&endpoint, group.member(step.send->peer), out, part);
      Task<> receiving = endpoint.receive(group.member(step.receive->peer), in, into, step.receive->how);
      Task<> together = both(endpoint.runtime(), std::move(sending), std::move(receiving), revoke);
      co_await std::move(together);
    } else if (step.send) {
      co_await send_numbers(&endpoint, group.member(step.send->peer), out, part);
    } else if (step.receive) {
      co_await endpoint.receive(group.member(step.receive->peer), in, into, step.receive->how);
    }
  }
}

}  // namespace

Task<> send_numbers(Endpoint* endpoint, int peer, Message message, FloatSpan numbers) {
  if (numbers.type == message.type) {
    co_await endpoint->send(peer, message, numbers.bytes());
    co_return;
  }
  std::vector<std::byte> encoded(numbers.data ? numbers.count * size_of(message.type) : 0);
  convert(FloatSpan(numbers.data ? encoded.data() : nullptr, numbers.count, message.type), numbers);
  const ConstBytes payload(numbers.data ? encoded.data() : nullptr, numbers.count * size_of(message.type));
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

Task<> all_reduce(const Route& route, Group group, FloatSpan data, ExecuteOptions options) {
  const int steps = route.steps(group.size());
  std::vector<Task<>> parts;
  for (const Range range : segments(data.count, data.type, options.segment_bytes)) {
    const auto id = options.channel * max_segments + static_cast<std::uint32_t>(parts.size());
    const Message message{{options.purpose, id}, route.name, options.wire, 0};
    parts.push_back(run_steps(&route, group, data.slice(range.begin, range.end), message, 0, steps));
  }
  if (parts.size() == 1) {
    co_await std::move(parts.front());
    co_return;
  }
  Endpoint* endpoint = &group.endpoint();
  auto revoke = [endpoint](std::exception_ptr error) { endpoint->revoke(error); };
  Task<> together = all(group.runtime(), std::move(parts), revoke);
  co_await std::move(together);
}

Task<> broadcast(Group group, FloatSpan data, ExecuteOptions options) {
  const Route* tree = &find_route("reduce-broadcast");
  const int steps = tree->steps(group.size());
  const Message message{{options.purpose, options.channel * max_segments}, "broadcast", options.wire, 0};
  return run_steps(tree, group, data, message, steps / 2, steps);
}

}  // namespace ripieno
