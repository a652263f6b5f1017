// Endpoint: one rank's way to its peers. Messages go to a peer on a channel; on one channel they arrive in the order in
// which they were sent, and channels do not wait for each other. Every message carries epoch, channel, sequence and what
// it is (operation, type, count): when the two sides disagree, the receiver's error names both, and nothing hangs.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "ripieno/core/runtime.h"
#include "ripieno/core/span.h"
#include "ripieno/observe/ledger.h"

namespace ripieno {

/// A sequence of messages between two ranks. `id` tells apart what is in flight at once (one bucket from another).
struct Channel {
  Purpose purpose = Purpose::exchange;
  std::uint32_t id = 0;
  auto operator<=>(const Channel&) const = default;
};

/// What both sides must agree on.
struct Message {
  Channel channel;
  std::string_view operation;  ///< at most 23 characters, outliving the call: "ring", "broadcast", ...
  DType type = DType::fp32;    ///< of the elements on the wire
  std::uint64_t count = 0;     ///< elements (bytes, for messages that are not numbers)
};

/// "ring of 1024 fp32 on exchange channel 0"
std::string describe(const Message& message);

/// What a receiver does with the numbers that arrive.
enum class Reduce : std::uint8_t { add, replace };

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Runtime& runtime() = 0;

  /// Returns when `payload` may be overwritten. A payload with a size but null data is counted and timed, not moved.
  virtual Task<> send(int peer, Message message, ConstBytes payload) = 0;

  /// Fills `into`, whose size must be what the sender sent.
  virtual Task<> receive(int peer, Message message, Bytes into) = 0;

  /// Adds the numbers (of message.type on the wire) to `into`, or replaces them, converted to into's type.
  virtual Task<> receive(int peer, Message message, FloatSpan into, Reduce how) = 0;

  /// Fails every operation, pending and to come, with `error`: for when the job cannot go on.
  virtual void revoke(std::exception_ptr error) = 0;

  /// Framing bytes that each message costs besides its payload.
  virtual std::size_t framing_bytes() const = 0;
};

}  // namespace ripieno
