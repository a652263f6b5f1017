// Endpoint: point-to-point messages between one rank and its peers. Messages go to a peer on a channel; on one channel
// they arrive in the order of sending, and channels do not wait for each other. Every message carries epoch, channel,
// sequence number, operation, type and count: if the two sides disagree, the receiver's error names both, and nothing
// hangs. An endpoint may also have an engine, which runs some collectives faster than messages can.
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
#include "ripieno/transport/waits.h"

namespace ripieno::transport {

/// Identifies messages that end together (Endpoint::abort): those of one communicator (collective/communicator.h). 0:
/// the communicator of all ranks.
using Scope = std::uint64_t;

/// A sequence of messages between two ranks. Messages in flight at once (of different buckets) differ in `id`.
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
  /// Matters to the sender alone: among messages queued for the connection to a peer, more urgent ones go first (tcp).
  /// The same for all messages in flight on one channel.
  int urgency = 0;
};

/// "ring of 1024 fp32 on exchange channel 0"
std::string describe(const Message& message);

/// The sender's and the receiver's end of a transfer.
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

/// The collectives. Each can be done with messages (collective/schedule.h).
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

/// An operation of an endpoint's engine: a collective of all ranks, in scope 0, on numbers of this type in memory.
struct EngineOperation {
  Collective collective;
  DType type;
  std::string_view route;  ///< gives the same bits as this route (collective/routes.cpp), unless it is native
  std::uint32_t channels;  ///< works on channels 0 .. channels - 1 of every purpose
  /// The ledger counts what it is handed and hands back, since its messages are not known; else the route's messages.
  bool handed_over = false;
};
/// The route of an engine's operations that have no route of ours (collective/native.h).
inline constexpr std::string_view native_route = "native";

/// How an engine's operation combines numbers, and the rank where it starts or ends, where it does either.
struct EngineTerms {
  numeric::Reduce how = numeric::Reduce::add;
  int root = 0;
};

/// The longest time for which a rank that has given up waits until others are told why.
inline constexpr Duration telling_limit = std::chrono::seconds(1);

/// The Error(peer) of survivors() where the others go on without this rank.
inline Error left_out(int rank) {
  return Error(Loss{rank, Lost::left_out},
               text("rank ", rank, ": the others go on without it, since one of them has lost it"));
}

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Runtime& runtime() = 0;

  /// Returns when `payload` may be overwritten. A payload with a size but null data is counted and timed, not moved.
  virtual Task<> send(int peer, Message message, ConstBytes payload) = 0;

  /// Fills `into`; the message must have the sink's size (Sink::payload).
  virtual Task<> receive(int peer, Message message, Sink into) = 0;

  /// Combines the numbers (of message.type on the wire, converted to into's type) with `into` as `how` says.
  Task<> receive(int peer, Message message, NumberSpan into, numeric::Reduce how) {
    if (into.count != message.count) throw_count(message, into.count);
    return receive(peer, message, Sink(into, message.type, how));
  }

  /// Sends and receives at once; returns when both have ended. The first error is passed to `on_error`, which must end
  /// the other half (Endpoint::abort), and is thrown once both have ended.
  virtual Task<> exchange(Outgoing out, Incoming in, std::function<void(std::exception_ptr)> on_error);

  /// Ends every pending and future operation in `scope`: on this rank with `error`, on the ranks `members` (which may
  /// include this one) with an Error(peer) that says why: "rank 0: rank 2 gave up: " and the first line of its message.
  /// Messages that they still send in the scope are dropped. Other scopes go on. A failed operation no longer touches
  /// its memory. Only the first error for a scope counts; a rank that has heard of the abort and then calls this passes
  /// it on to members that have not.
  virtual void abort(Scope scope, const std::vector<int>& members, std::exception_ptr error) = 0;

  /// Ends the connections to peers that have not yet given back memory, of aborted operations, which they may read in
  /// place: so these operations end even if such a peer hangs.
  virtual void cut_off(std::exception_ptr) {}
  /// From now on calls `watcher` with every scope that ends on this rank, also by its own aborts. For endpoints around
  /// this one (shaped.h).
  virtual void watch_aborts(std::function<void(Scope, std::exception_ptr)> watcher);

  /// After a loss: agrees with the others on who goes on, and returns these ranks, this one included, ascending. All
  /// that go on call it, once all coroutines of theirs that used the endpoint have got their error. Without a loss it
  /// returns all ranks. Error(peer): with this transport a lost rank ends the job, this rank itself is the lost one, or
  /// nobody can say who is left. Its messages are in no ledger.
  virtual Task<std::vector<int>> survivors() = 0;

  /// Whether everything sent can be received, whatever this rank does next. False only if sends return before that
  /// (shaped.h): then await flush() before destroying the endpoint. flush() throws nothing and does not wait for lost
  /// ranks. It also waits until others have been told of aborts, for at most telling_limit.
  virtual bool has_flushed() const { return true; }
  virtual Task<> flush();

  /// `bytes` zeroed bytes, aligned to 64, that peers can read in place if the transport supports it; payloads sent from
  /// there are then not copied. The memory may outlive the endpoint.
  virtual std::shared_ptr<std::byte> memory(std::size_t bytes);

  /// The engine's operations, the same on all ranks. Empty over tcp.
  virtual std::span<const EngineOperation> engine() const { return {}; }
  /// The engine's operation that does what the route does, on numbers of `type` on `channel`; null if there is none.
  const EngineOperation* find_engine(std::string_view route, Collective collective, DType type,
                                     Channel channel = {}) const;

  /// All ranks open the channels of the engine's operations in the same order: here, or by the first operation on one.
  virtual void open_engine(Channel) {}
  /// Runs an operation of engine(); every rank calls it with the same count of numbers and the same terms. One at a
  /// time on a channel. Errors: those of receive(); Error(mismatch): the ranks want different things.
  virtual Task<> run_engine(Collective collective, Message message, NumberSpan numbers, EngineTerms terms = {});

  /// How messages get to `peer`, for people: "tcp", "shared memory", "tcp (another host)".
  virtual std::string way(int peer) const = 0;

  /// The ranks that pending operations of this rank wait for, ascending, as far as the transport knows: for errors.
  virtual std::vector<int> awaited() const { return {}; }

  /// Asks all ranks whom they wait for, since this one has waited for so long, and calls `found` on the runtime's
  /// thread, within seconds, with the ranks at which the waiting ends. Without an inquiry at once, with awaited().
  virtual void find_hang(Duration waited, std::function<void(const Hang&)> found);

  /// Framing bytes that each message to or from `peer` costs besides its payload.
  virtual std::size_t framing_bytes(int peer) const = 0;

 private:
  [[noreturn]] static void throw_count(const Message& message, std::size_t count);
};

}  // namespace ripieno::transport
