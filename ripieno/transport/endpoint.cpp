#include "ripieno/transport/endpoint.h"

#include "ripieno/core/memory.h"

namespace ripieno {

std::string describe(const Message& message) {
  return text(message.operation, " of ", message.count, " ", name(message.type), " on ", name(message.channel.purpose),
              " channel ", message.channel.id);
}

Task<> Endpoint::flush() { co_return; }

bool Endpoint::has_all_reduce(const Message&) const { return false; }

Task<> Endpoint::all_reduce(Message message, FloatSpan) {
  fail(ErrorKind::internal, describe(message), ": this endpoint has no all-reduce of its own");
}

std::shared_ptr<std::byte> Endpoint::memory(std::size_t bytes) { return own_memory(bytes); }

}  // namespace ripieno
