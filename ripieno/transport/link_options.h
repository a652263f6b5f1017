// Options of a link to a peer, whatever carries its bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ripieno/core/runtime.h"

namespace ripieno::transport {

struct LinkOptions {
  /// Credit: bytes that one peer may send before their receives are posted. Beyond it, reading from that peer pauses
  /// until a receive makes room. A message larger than the whole credit is read once its receive is posted.
  std::size_t unasked_bytes = 64 << 20;
  /// The watchdog's limit for every pending operation.
  Duration timeout = std::chrono::minutes(30);
  /// The epoch of the membership view; both sides must have the same.
  std::uint32_t epoch = 0;
};

}  // namespace ripieno::transport
