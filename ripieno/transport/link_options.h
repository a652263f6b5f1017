// What every link to a peer is told, whatever carries its bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ripieno/core/runtime.h"

namespace ripieno::transport {

struct LinkOptions {
  /// Credit: bytes that one peer may send before they are asked for. Beyond it, reading from that peer pauses until a
  /// receive makes room. A message larger than all of it is read once its receive is posted.
  std::size_t unasked_bytes = 64 << 20;
  /// Watchdog of every pending operation.
  Duration timeout = std::chrono::minutes(30);
  /// Of the membership view; both sides' must be the same.
  std::uint32_t epoch = 0;
};

}  // namespace ripieno::transport
