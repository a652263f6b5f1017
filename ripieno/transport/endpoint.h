// Endpoint: one rank's way to its peers. Messages go to a peer on a channel; on one channel they arrive in the order in
// which they were sent, and channels do not wait for each other. Every message carries epoch, channel, sequence and what
// it is (operation, type, count): when the two sides disagree, the receiver's error names both, and nothing hangs.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  /// The sender's own affair: of the messages that wait for the connection to a peer, those with more go first (tcp). The
  /// same for all messages of a channel that are under way at once.
  int urgency = 0;
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

  /// Fails every operation, pending and to come, with `error`: for when the job cannot go on. Does nothing where a loss
  /// fails them already (see survivors()) and `error` is an Error(peer) too: what the loss broke does not end the job.
  virtual void revoke(std::exception_ptr error) = 0;

  /// Goes on without the ranks that were lost so far: returns the ranks that are alive, own rank included, ascending,
  /// and begins a new epoch on this rank. Until it is called, every operation after a loss fails with Error(peer) that
  /// names the lost rank. Call it once all of this rank's coroutines that used the endpoint have had their error.
  /// Without a loss it returns all and changes nothing. Error(peer): this transport ends the job with a lost rank, or
  /// this rank itself is the lost one; after revoke(): its error.
  virtual std::vector<int> survivors() = 0;

  /// Whether all that was sent can be received whatever this rank does next. False only where sends return before that
  /// (shaped.h): then flush() is to be awaited before the endpoint goes. It throws nothing; what was lost is not waited for.
  virtual bool has_flushed() const { return true; }
  virtual Task<> flush();

  /// `bytes` zeros, aligned to 64 bytes, that this endpoint's peers can read where they lie if the transport can do that:
  /// what is sent from there is then not copied. Owned by whoever holds it, also after the endpoint has gone.
  virtual std::shared_ptr<std::byte> memory(std::size_t bytes);

  /// Whether all_reduce() is there for such a message: the same on all ranks. Over a network it is not.
  virtual bool has_all_reduce(const Message& message) const;

  /// The engine's own all-reduce, where it has one: every rank calls it with as many numbers, and all end with the sum. Bits
  /// and bytes counted are those of the route two-phase (collective/two_phase.h) whose messages are `message`s. One at a time
  /// on a channel. Errors: as of receive().
  virtual Task<> all_reduce(Message message, FloatSpan numbers);

  /// How messages get to `peer`, for people: "tcp", "shared memory", "tcp (another host)".
  virtual std::string way(int peer) const = 0;

  /// Framing bytes that each message costs besides its payload.
  virtual std::size_t framing_bytes() const = 0;
};

}  // namespace ripieno
