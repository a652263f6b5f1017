#include "ripieno/transport/endpoint.h"

namespace ripieno {

std::string describe(const Message& message) {
  return text(message.operation, " of ", message.count, " ", name(message.type), " on ", name(message.channel.purpose),
              " channel ", message.channel.id);
}

}  // namespace ripieno
