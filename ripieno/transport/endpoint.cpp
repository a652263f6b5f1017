#include "ripieno/transport/endpoint.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace ripieno {

std::string describe(const Message& message) {
  return text(message.operation, " of ", message.count, " ", name(message.type), " on ", name(message.channel.purpose),
              " channel ", message.channel.id);
}

bool Endpoint::has_all_reduce(const Message&) const { return false; }

Task<> Endpoint::all_reduce(Message message, FloatSpan) {
  fail(ErrorKind::internal, describe(message), ": this endpoint has no all-reduce of its own");
}

std::shared_ptr<std::byte> Endpoint::memory(std::size_t bytes) {
  constexpr std::align_val_t line{64};
  auto* data = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), line));
  std::memset(data, 0, bytes);
  return {data, [line](std::byte* owned) { ::operator delete(owned, line); }};
}

}  // namespace ripieno
