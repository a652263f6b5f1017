// What is under way on a simulated network (network.h), which its endpoints share. Streams, cards, and losses with
// aborts have a file each: streams.cpp, cards.cpp, losses.cpp.
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

/// Made and ended for every message: in blocks that are used again (core/memory.h).
struct Recycled {
  static void* operator new(std::size_t bytes) { return take_block(bytes); }
  static void operator delete(void* block, std::size_t bytes) { give_back_block(block, bytes); }
};

struct Operation;

/// A message from the call of send() until a receive has taken it.
struct Parcel : Recycled {
  std::shared_ptr<State> state;
  Stream* stream = nullptr;     // from its start on
  Operation* sender = nullptr;  // until its half has ended
  Parcel* next = nullptr;       // in its stream
  Parcel* next_turn = nullptr;  // in its lane
  int references = 0;
  bool started = false, delivered = false, unasked = false, dropped = false;
  Duration left{0}, turn{0};  // on the wire, where messages take turns
  ConstBytes payload;         // the sender's: its data until sending starts
  Message message;
  ByteVector data;  // the copy that travels (empty when the payload has no data)
};

/// Counts those who hold a parcel: its stream until it is taken or dropped, its lane while it waits there, and events.
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
  /// Its sender still waits where a run ended early, and is then destroyed.
  static void end(Parcel* parcel);

  Parcel* parcel_ = nullptr;
};

/// A call of send(), receive() or exchange() until its caller goes on: a half sends, or receives, or there are both.
struct Operation : Recycled {
  Resume resume;
  int left = 0;  // halves that have not ended
  bool receives = false;
  Operation* next = nullptr;  // in its stream's receives, or of those that are ready
  Parcel* parcel = nullptr;   // what it sends, until it starts
  int peer = 0;               // to whom
  std::exception_ptr error;   // the first
  Incoming in{0, {}, Bytes()};
  std::function<void(std::exception_ptr)> on_error;

  ~Operation() { ParcelReference::release(parcel); }
};

struct Card;

/// All that one rank sends another.
struct Lane {
  int from = 0, to = 0;
  bool is_inside = false;                       // both are on one node
  std::size_t unasked = 0;                      // bytes under way or arrived that nobody asked for
  Card *out = nullptr, *in = nullptr;           // of the two ranks
  QueueOf<Parcel, &Parcel::next_turn> waiting;  // where messages take turns: for the card; the first is being sent
  Lane* next = nullptr;                         // of those that wait for their turn
  std::vector<Stream*> streams;                 // by channel
};

/// What is between one sender and one receiver on one channel, in order.
struct Stream {
  Lane* lane = nullptr;
  Channel channel;
  QueueOf<Parcel, &Parcel::next> parcels;       // not yet taken: first those that have started
  QueueOf<Operation, &Operation::next> posted;  // receives that are not yet served
  Parcel* not_started = nullptr;                // the first, within `parcels`
  std::uint32_t started = 0, asked = 0;         // of the parcels; of the receives

  bool is(int from, int to, const Channel& other) const {
    return lane->from == from && lane->to == to && channel == other;
  }
};

/// What sends, or receives, one message after the other.
struct Card {
  Duration out_free{0}, in_free{0};  // from then on
  QueueOf<Lane, &Lane::next> turns;  // lanes that wait for their turn
  bool busy = false;                 // where messages take turns
};

struct alignas(64) Rank {
  Card card;                                       // to other nodes
  bool is_unharmed = true;                         // nothing was killed, lost, aborted or closed
  Stream *last_out = nullptr, *last_in = nullptr;  // the stream of the latest send; of the latest receive
  Card inside;                                     // to ranks of its own node
  std::exception_ptr killed;                       // set from its death on
  std::size_t epoch = 0;                           // how many of the lost it has acknowledged
  std::vector<Stream*> streams;                    // in which it sends or receives
  std::unordered_map<Scope, std::exception_ptr> aborted;
};

struct State : std::enable_shared_from_this<State> {
  State(Runtime& runtime, int ranks, SimulatedOptions options);

  // Calls of endpoints.
  void start(int rank, std::unique_ptr<Operation> operation);
  void abort(int rank, Scope scope, const std::vector<int>& members, std::exception_ptr error);
  std::vector<int> survivors(int rank);
  void kill(int rank);
  /// Fails all that waits: the network goes.
  void close();
  /// Who waits for what.
  std::string stalled() const;

  // Streams.
  Lane& lane(int from, int to);
  Stream& find_stream(int from, int to, const Channel& channel);
  Stream& out_stream(int from, int to, const Channel& channel);
  Stream& in_stream(int from, int to, const Channel& channel);
  /// Starts what may start: in order, and only what was asked for or fits into the window.
  void advance(Stream& stream);
  void match(Stream& stream);
  void take(Parcel& parcel, Operation& receiver);
  /// Room in the window: what waits at this sender for this receiver may go.
  void free_window(Lane& lane, std::size_t bytes);
  /// A half has ended.
  void end(Operation* operation, std::exception_ptr error);
  void end_sender(Parcel& parcel, std::exception_ptr error);
  /// Those whose halves have ended go on, after all that is ready already. Every entry ends with it.
  void post_ready();

  // Cards.
  void send(Parcel& parcel);
  /// The next part of a message goes out; returns when the card is done with it.
  Duration transmit(Parcel& parcel, Duration wire, bool is_last);
  void serve_next(Card& card);
  void end_turn(Card& card, Lane& lane);
  /// Of the first that waits.
  void end_sending(Lane& lane);
  /// The head of a part is here: the receiver's card takes it when it is free, and not before `here`, when all of it
  /// is. The message has arrived with its last part.
  void arrive(Parcel& parcel, Duration wire, Duration here, bool is_last);
  void deliver(Parcel& parcel);
  /// When a card is done with what takes it so long; it is then free no earlier than `card`, less what it may let
  /// through at once.
  Duration served(Duration& card, Duration wire, bool is_inside) const;
  const LinkModel& link(const Lane& lane) const { return lane.is_inside ? options.node_link : options.link; }

  // Losses and aborts.
  void check(int rank, const Operation& operation) const;
  void check_peer(int rank, int peer, Scope scope) const;
  void lose(int rank);
  bool is_lost(int rank) const;
  /// Whether there is a loss that `rank` has not acknowledged.
  bool is_behind(int rank) const { return at(rank).epoch < lost.size(); }
  bool has_aborted(int rank, Scope scope) const {
    return !at(rank).aborted.empty() && at(rank).aborted.contains(scope);
  }
  /// Whether that is the first.
  bool add_abort(int rank, Scope scope, const std::exception_ptr& error);
  /// Ends the operations of `rank` in `scope`.
  void end_scope(int rank, Scope scope, const std::exception_ptr& error);
  void fail_receives(Stream& stream, const std::exception_ptr& error);
  /// Drops its parcels but those that it keeps. Their senders get the error, where there is one.
  void drop_parcels(Stream& stream, const std::exception_ptr& error, bool (*keeps)(const Parcel&));

  Rank& at(int rank) { return members[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return members[static_cast<std::size_t>(rank)]; }

  Runtime& runtime;
  const int ranks;
  const SimulatedOptions options;
  std::vector<Rank> members;
  std::vector<int> lost;  // the dead of whom all know, in the order of their losses
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
