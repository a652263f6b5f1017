// Endpoint: one rank's way to its peers, point to point. Messages go to a peer on a channel; on one channel they arrive
// in the order in which they were sent, and channels do not wait for each other. Every message carries epoch, channel,
// sequence and what it is (operation, type, count): when the two sides disagree, the receiver's error names both, and
// nothing hangs. Beside that, a table of what its engine does for all ranks together, faster than by messages.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/core/runtime.h"
#include "ripieno/observe/ledger.h"
#include "ripieno/transport/sink.h"

namespace ripieno::transport {

/// What belongs together among the messages of an endpoint, and ends together (Endpoint::abort): those of one
/// communicator (collective/communicator.h), which gives it out. 0: the one of all ranks.
using Scope = std::uint64_t;

/// A sequence of messages between two ranks. `id` tells apart what is in flight at once (one bucket from another).
struct Channel {
  observe::Purpose purpose = observe::Purpose::exchange;
  std::uint32_t id = 0;
  Scope scope = 0;
  auto operator<=>(const Channel&) const = default;
};

/// What both sides must agree on.
struct Message {
  Channel channel;
  std::string_view operation;  ///< at most 19 characters, outliving the call: "ring", "broadcast", ...
  DType type = DType::fp32;    ///< of the elements on the wire
  std::uint64_t count = 0;     ///< elements (bytes, for messages that are not numbers)
  /// The sender's own affair: of the messages that wait for the connection to a peer, those with more go first (tcp).
  /// The same for all messages of a channel that are under way at once.
  int urgency = 0;
};

/// "ring of 1024 fp32 on exchange channel 0"
std::string describe(const Message& message);

/// One end of a transfer.
struct Outgoing {
  int peer = 0;
  Message message;
  ConstBytes payload;
};
struct Incoming {
  int peer = 0;
  Message message;
  Sink into;
};

/// What ranks do together. All of it can be done by messages (collective/schedule.h).
enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all
};
/// "all-reduce", ...
const char* name(Collective collective);

/// What an endpoint's engine does itself: a collective of all ranks, in scope 0, of numbers of this type in memory.
struct EngineOperation {
  Collective collective;
  DType type;
  std::string_view route;  ///< whose bits it gives, and whose messages are counted (collective/routes.cpp)
  std::uint32_t channels;  ///< 0 .. so many less one of every purpose
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Runtime& runtime() = 0;

  /// Returns when `payload` may be overwritten. A payload with a size but null data is counted and timed, not moved.
  virtual Task<> send(int peer, Message message, ConstBytes payload) = 0;

  /// Fills `into`, of whose size (Sink::payload) the message must be.
  virtual Task<> receive(int peer, Message message, Sink into) = 0;

  /// Adds the numbers (of message.type on the wire) to `into`, or does with them what `how` says, converted to into's
  /// type.
  Task<> receive(int peer, Message message, NumberSpan into, numeric::Reduce how) {
    if (into.count != message.count) throw_count(message, into.count);
    return receive(peer, message, Sink(into, message.type, how));
  }

  /// Sends and receives at once; returns when both have ended. The first error is told to `on_error`, which must make
  /// the other end (Endpoint::abort), and is thrown at the end.
  virtual Task<> exchange(Outgoing out, Incoming in, std::function<void(std::exception_ptr)> on_error);

  /// Ends every operation in `scope`, pending and to come, on this rank with `error`, and on `members` (ranks; this one
  /// need not be left out) with an Error(peer) that says why: "rank 0: rank 2 gave up: " and the first line of its
  /// message. What they still send in it is dropped. Other scopes go on, and the memory of an operation that has failed
  /// is its owner's again. The first error for a scope counts; whoever calls it after having been told tells those who
  /// have not been told yet.
  virtual void abort(Scope scope, const std::vector<int>& members, std::exception_ptr error) = 0;

  /// Has `watcher` called with every scope that ends on this rank, its own aborts among them. For what lies around it
  /// (shaped.h).
  virtual void watch_aborts(std::function<void(Scope, std::exception_ptr)> watcher);

  /// Goes on without the ranks that were lost so far: returns the ranks that are alive, own rank included, ascending,
  /// and begins a new epoch on this rank. Until it is called, every operation after a loss fails with Error(peer) that
  /// names the lost rank. Call it once all of this rank's coroutines that used the endpoint have had their error.
  /// Without a loss it returns all and changes nothing. Error(peer): this transport ends the job with a lost rank, or
  /// this rank itself is the lost one.
  virtual std::vector<int> survivors() = 0;

  /// Whether all that was sent can be received whatever this rank does next. False only where sends return before that
  /// (shaped.h): then flush() is to be awaited before the endpoint goes. It throws nothing; what was lost is not waited
  /// for.
  virtual bool has_flushed() const { return true; }
  virtual Task<> flush();

  /// `bytes` zeros, aligned to 64 bytes, that this endpoint's peers can read where they lie if the transport can do
  /// that: what is sent from there is then not copied. Owned by whoever holds it, also after the endpoint has gone.
  virtual std::shared_ptr<std::byte> memory(std::size_t bytes);

  /// What the engine does itself: the same table on all ranks. Over a network it is empty.
  virtual std::span<const EngineOperation> engine() const { return {}; }
  /// Its row for a collective of numbers of `type` on `channel`; null where there is none.
  const EngineOperation* find_engine(Collective collective, DType type, Channel channel = {}) const;

  /// Does what a row of engine() says; every rank calls it with as many numbers. One at a time on a channel. Errors: as
  /// of receive().
  virtual Task<> run_engine(Collective collective, Message message, NumberSpan numbers);

  /// How messages get to `peer`, for people: "tcp", "shared memory", "tcp (another host)".
  virtual std::string way(int peer) const = 0;

  /// Framing bytes that each message costs besides its payload.
  virtual std::size_t framing_bytes() const = 0;

 private:
  [[noreturn]] static void throw_count(const Message& message, std::size_t count);
};

}  // namespace ripieno::transport
