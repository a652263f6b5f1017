// The state of a simulated network (network.h), which its endpoints share. Its members are in streams.cpp, cards.cpp
// and losses.cpp (losses and aborts).
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ripieno/core/memory.h"
#include "ripieno/core/queue_of.h"
#include "ripieno/transport/simulated/network.h"

namespace ripieno::transport::simulation {

struct State;
struct Stream;

/// The base of objects made for every message: their memory is recycled (core/memory.h).
struct Recycled {
  static void* operator new(std::size_t bytes) { return take_block(bytes); }
  static void operator delete(void* block, std::size_t bytes) { give_back_block(block, bytes); }
};

struct Operation;

/// A message from the call of send() until a receive has taken it.
struct Parcel : Recycled {
  std::shared_ptr<State> state;
  Stream* stream = nullptr;     // set once it starts
  Operation* sender = nullptr;  // until its half has ended
  Parcel* next = nullptr;       // in its stream
  Parcel* next_turn = nullptr;  // in its lane
  int references = 0;
  bool started = false, delivered = false, unasked = false, dropped = false;
  Duration left{0}, turn{0};  // time on the wire, where messages take turns
  ConstBytes payload;         // the sender's memory, read when sending starts
  Message message;
  ByteVector data;  // the copy that travels (empty when the payload has no data)
};

/// A counted reference to a parcel. Its holders: its stream until it is taken or dropped, its lane while it waits
/// there, and events.
class ParcelReference {
 public:
  ParcelReference() = default;
  explicit ParcelReference(Parcel* parcel) : parcel_(parcel) { ++parcel_->references; }
  ParcelReference(ParcelReference&& other) noexcept : parcel_(std::exchange(other.parcel_, nullptr)) {}
  ParcelReference& operator=(ParcelReference&& other) noexcept {
    std::swap(parcel_, other.parcel_);
    return *this;
  }
  ~ParcelReference() { release(parcel_); }
  Parcel* operator->() const { return parcel_; }
  Parcel& operator*() const { return *parcel_; }

  static void hold(Parcel* parcel) { ++parcel->references; }
  static void release(Parcel* parcel) {
    if (parcel && --parcel->references == 0) end(parcel);
  }

 private:
  /// If a run ended early, the parcel's sender is still waiting; destroys it.
  static void end(Parcel* parcel);

  Parcel* parcel_ = nullptr;
};

/// A call of send(), receive() or exchange() until its caller goes on. It has a sending half, a receiving half, or
/// both.
struct Operation : Recycled {
  Resume resume;
  int left = 0;  // halves that have not ended
  bool receives = false;
  Operation* next = nullptr;  // in its stream's receives, or among ready operations
  Parcel* parcel = nullptr;   // what it sends, until it starts
  int peer = 0;               // the receiver
  std::exception_ptr error;   // the first one
  Incoming in{0, {}, Bytes()};
  std::function<void(std::exception_ptr)> on_error;

  ~Operation() { ParcelReference::release(parcel); }
};

struct Card;

/// Everything that one rank sends to another.
struct Lane {
  int from = 0, to = 0;
  bool is_inside = false;                       // both ranks are on one node
  std::size_t unasked = 0;                      // bytes in flight or arrived whose receive is not posted
  Card *out = nullptr, *in = nullptr;           // the two ranks' cards
  QueueOf<Parcel, &Parcel::next_turn> waiting;  // for the card, where messages take turns; the first is being sent
  Lane* next = nullptr;                         // among lanes that wait for their turn
  std::vector<Stream*> streams;                 // by channel
};

/// The messages and receives between one sender and one receiver on one channel, in order.
struct Stream {
  Lane* lane = nullptr;
  Channel channel;
  QueueOf<Parcel, &Parcel::next> parcels;       // not yet taken; started ones first
  QueueOf<Operation, &Operation::next> posted;  // receives not yet served
  Parcel* not_started = nullptr;                // the first such in `parcels`
  std::uint32_t started = 0, asked = 0;         // parcels started; receives posted

  bool is(int from, int to, const Channel& other) const {
    return lane->from == from && lane->to == to && channel == other;
  }
};

/// A network card: it sends, and receives, one message after the other.
struct Card {
  Duration out_free{0}, in_free{0};  // the times from which it is free
  QueueOf<Lane, &Lane::next> turns;  // lanes that wait for their turn
  bool busy = false;                 // used where messages take turns
};

struct alignas(64) Rank {
  Card card;                                       // to other nodes
  bool is_unharmed = true;                         // no kill, loss, abort or close so far
  Stream *last_out = nullptr, *last_in = nullptr;  // the streams of the latest send and of the latest receive
  Card inside;                                     // to ranks of its own node
  std::exception_ptr killed;                       // set from its death on
  std::size_t epoch = 0;                           // how many losses it has acknowledged
  std::vector<Stream*> streams;                    // those in which it sends or receives
  std::unordered_map<Scope, std::exception_ptr> aborted;
  std::vector<std::function<void(Scope, std::exception_ptr)>> watchers;  // of aborts
};

struct State : std::enable_shared_from_this<State> {
  State(Runtime& runtime, int ranks, SimulatedOptions options);

  // Calls of endpoints.
  void start(int rank, std::unique_ptr<Operation> operation);
  void abort(int rank, Scope scope, const std::vector<int>& members, std::exception_ptr error);
  std::vector<int> survivors(int rank);
  void kill(int rank);
  /// Fails all waiting operations before the network is destroyed.
  void close();
  /// Says who waits for what.
  std::string stalled();
  /// All streams, by sender, receiver and channel: what ends at one time ends in this order.
  std::vector<Stream*> in_order();

  // Streams.
  Lane& lane(int from, int to);
  Stream& find_stream(int from, int to, const Channel& channel);
  Stream& out_stream(int from, int to, const Channel& channel);
  Stream& in_stream(int from, int to, const Channel& channel);
  /// Starts parcels in order, as long as their receive is posted or they fit into the window.
  void advance(Stream& stream);
  void match(Stream& stream);
  void take(Parcel& parcel, Operation& receiver);
  /// Frees room in the window, so that parcels that wait at this sender for this receiver may start.
  void free_window(Lane& lane, std::size_t bytes);
  /// Ends one half of an operation.
  void end(Operation* operation, std::exception_ptr error);
  void end_sender(Parcel& parcel, std::exception_ptr error);
  /// Resumes the callers whose halves have all ended, after everything that is ready already. Every entry point ends
  /// with it.
  void post_ready();

  // Cards.
  void send(Parcel& parcel);
  /// Sends the next part of a message; returns the time at which the card is done with it.
  Duration transmit(Parcel& parcel, Duration wire, bool is_last);
  void serve_next(Card& card);
  void end_turn(Card& card, Lane& lane);
  /// Ends the sending of the lane's first waiting parcel.
  void end_sending(Lane& lane);
  /// Called when the head of a part arrives: the receiver's card takes the part when it is free, and not before `here`,
  /// when the whole part has arrived. The message has arrived with its last part.
  void arrive(Parcel& parcel, Duration wire, Duration here, bool is_last);
  void deliver(Parcel& parcel);
  /// The time at which a card is done with a transfer that takes `wire`. It starts no earlier than `card` (when the
  /// card is free), less the burst that the card may send at once.
  Duration served(Duration& card, Duration wire, bool is_inside) const;
  const LinkModel& link(const Lane& lane) const { return lane.is_inside ? options.node_link : options.link; }

  // Losses and aborts.
  void check(int rank, const Operation& operation) const;
  void check_time(int rank, const Operation& operation) const;
  void check_peer(int rank, int peer, Scope scope) const;
  void lose(int rank);
  bool is_lost(int rank) const;
  /// Whether there is a loss that `rank` has not acknowledged.
  bool is_behind(int rank) const { return at(rank).epoch < lost.size(); }
  bool has_aborted(int rank, Scope scope) const {
    return !at(rank).aborted.empty() && at(rank).aborted.contains(scope);
  }
  /// Records an abort. Returns whether it is the first.
  bool add_abort(int rank, Scope scope, const std::exception_ptr& error);
  /// Ends the operations of `rank` in `scope`.
  void end_scope(int rank, Scope scope, const std::exception_ptr& error);
  void fail_receives(Stream& stream, const std::exception_ptr& error);
  /// Drops the stream's parcels except those for which `keeps` is true. Their senders get the error, if any.
  void drop_parcels(Stream& stream, const std::exception_ptr& error, bool (*keeps)(const Parcel&));

  Rank& at(int rank) { return members[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return members[static_cast<std::size_t>(rank)]; }

  Runtime& runtime;
  const int ranks;
  const SimulatedOptions options;
  std::vector<Rank> members;
  std::vector<int> lost;  // the dead ranks that all know of, in the order of their losses
  std::exception_ptr closed;
  QueueOf<Operation, &Operation::next> ready;

  struct StreamKey {
    int from, to;
    Channel channel;
    bool operator==(const StreamKey&) const = default;
  };
  struct StreamHash {
    std::size_t operator()(const StreamKey& key) const;
  };
  std::unordered_map<StreamKey, Stream, StreamHash> streams;
  std::unordered_map<std::uint64_t, Lane> lanes;  // by sender and receiver
};

}  // namespace ripieno::transport::simulation
