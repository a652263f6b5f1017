#include "ripieno/transport/endpoint.h"

#include "ripieno/core/async.h"
#include "ripieno/core/memory.h"

namespace ripieno::transport {

std::string describe(const Message& message) {
  return text(message.operation, " of ", message.count, " ", name(message.type), " on ",
              observe::name(message.channel.purpose), " channel ", message.channel.id);
}

const char* name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all-reduce";
    case Collective::reduce_scatter:
      return "reduce-scatter";
    case Collective::all_gather:
      return "all-gather";
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
    case Collective::all_to_all:
      return "all-to-all";
  }
  return "?";
}

Task<> Endpoint::exchange(Outgoing out, Incoming in, std::function<void(std::exception_ptr)> on_error) {
  Task<> sending = send(out.peer, out.message, out.payload);
  Task<> receiving = receive(in.peer, in.message, in.into);
  return both(runtime(), std::move(sending), std::move(receiving), std::move(on_error));
}

void Endpoint::watch_aborts(std::function<void(Scope, std::exception_ptr)>) {}

Task<> Endpoint::flush() { co_return; }

void Endpoint::find_hang(Duration, std::function<void(const Hang&)> found) { found({awaited(), ""}); }

const EngineOperation* Endpoint::find_engine(std::string_view route, Collective collective, DType type,
                                             Channel channel) const {
  for (const EngineOperation& row : engine()) {
    const bool fits = row.collective == collective && row.type == type && row.route == route;
    if (fits && channel.scope == 0 && channel.id < row.channels) return &row;
  }
  return nullptr;
}

Task<> Endpoint::run_engine(Collective collective, Message message, NumberSpan, EngineTerms) {
  fail(ErrorKind::internal, describe(message), ": this endpoint's engine does no ", name(collective));
}

std::shared_ptr<std::byte> Endpoint::memory(std::size_t bytes) { return own_memory(bytes); }

void Endpoint::throw_count(const Message& message, std::size_t count) {
  fail(ErrorKind::internal, "a receive of ", describe(message), " into ", count, " elements");
}

}  // namespace ripieno::transport
