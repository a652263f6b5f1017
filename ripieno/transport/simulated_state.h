// What is under way on a simulated network (simulated.h), which its endpoints share. Streams, cards and losses each have a
// file: simulated_streams.cpp, simulated_cards.cpp, simulated_losses.cpp.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ripieno/core/memory.h"
#include "ripieno/core/queue_of.h"
#include "ripieno/transport/simulated.h"

namespace ripieno::simulation {

struct State;
struct Stream;

/// Made and ended for every message: in blocks that are used again (core/memory.h).
struct Recycled {
  static void* operator new(std::size_t bytes) { return take_block(bytes); }
  static void operator delete(void* block, std::size_t bytes) { give_back_block(block, bytes); }
};

/// A call of send(), receive() or exchange() until its caller goes on: a half sends, or receives, or there are both.
struct Operation : Recycled {
  Outgoing out;
  Incoming in{0, {}, Bytes()};
  bool sends = false, receives = false;
  std::function<void(std::exception_ptr)> on_error;
  Resume resume;
  std::exception_ptr error;  // the first
  int left = 0;              // halves that have not ended
  Operation* next = nullptr;
};

/// A message from the call of send() until a receive has taken it.
struct Parcel : Recycled {
  std::shared_ptr<State> state;
  Stream* stream = nullptr;
  Message message;
  std::size_t bytes = 0;
  ConstBytes payload;           // the sender's, until sending starts
  ByteVector data;              // the copy that travels (empty when the payload has no data)
  Operation* sender = nullptr;  // null once its half has ended
  Duration left{0}, turn{0};    // on the wire, where messages take turns
  bool started = false, delivered = false, unasked = false, dropped = false;
  int references = 0;
  Parcel* next = nullptr;       // in its stream
  Parcel* next_turn = nullptr;  // in its lane
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
    if (parcel && --parcel->references == 0) delete parcel;
  }

 private:
  Parcel* parcel_ = nullptr;
};

/// All that one rank sends another.
struct Lane {
  int from = 0, to = 0;
  bool is_inside = false;                            // both are on one node
  std::size_t unasked = 0;                           // bytes under way or arrived that nobody asked for
  std::vector<Stream*> streams;                      // by channel
  QueueOf<Parcel, &Parcel::next_turn> waiting;       // where messages take turns: for the card; the first is being sent
  Lane* next = nullptr;                              // of those that wait for their turn
};

/// What is between one sender and one receiver on one channel, in order.
struct Stream {
  Lane* lane = nullptr;
  Channel channel;
  QueueOf<Parcel, &Parcel::next> parcels;      // not yet taken: first those that have started
  QueueOf<Operation, &Operation::next> posted;  // receives that are not yet served
  Parcel* not_started = nullptr;               // the first, within `parcels`
  std::size_t started = 0, asked = 0;          // of the parcels; of the receives
};

/// What sends, or receives, one message after the other.
struct Card {
  Duration out_free{0}, in_free{0};  // from then on
  QueueOf<Lane, &Lane::next> turns;  // lanes that wait for their turn
  bool busy = false;                 // where messages take turns
};

struct Rank {
  Card card, inside;               // to other nodes; to ranks of its own node
  std::exception_ptr killed;       // set from its death on
  std::size_t epoch = 0;           // how many of the lost it has acknowledged
  std::vector<Stream*> streams;    // in which it sends or receives
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
  Stream& stream(int from, int to, const Channel& channel);
  /// Starts what may start: in order, and only what was asked for or fits into the window.
  void advance(Stream& stream);
  void match(Stream& stream);
  void take(Parcel& parcel, Operation& receiver);
  /// Room in the window: what waits at this sender for this receiver may go.
  void free_window(Lane& lane, std::size_t bytes);
  /// A half has ended.
  void end(Operation* operation, std::exception_ptr error);
  void end_sender(Parcel& parcel, std::exception_ptr error);
  /// Those whose halves have ended go on: at once, where an event of the runtime is all that runs; or when their turn comes.
  void resume_ready();
  void post_ready();

  // Cards.
  void send(Parcel& parcel);
  /// The next part of a message goes out; returns when the card is done with it.
  Duration transmit(Parcel& parcel, Duration wire, bool is_last);
  void serve_next(Card& card);
  void end_turn(Card& card, Lane& lane);
  /// The head of a part is here: the receiver's card takes it when it is free, and not before `here`, when all of it is.
  /// The message has arrived with its last part.
  void arrive(Parcel& parcel, Duration wire, Duration here, bool is_last);
  void deliver(Parcel& parcel);
  /// When a card is done with what takes it so long; it is then free no earlier than `card`, less what it may let through
  /// at once.
  Duration served(Duration& card, Duration wire, bool is_inside) const;
  const LinkModel& link(const Lane& lane) const { return lane.is_inside ? options.node_link : options.link; }
  Card& card(int rank, const Lane& lane) { return lane.is_inside ? at(rank).inside : at(rank).card; }

  // Losses and aborts.
  void check(int rank, const Operation& operation) const;
  void check_peer(int rank, int peer, Scope scope) const;
  void lose(int rank);
  bool is_lost(int rank) const;
  /// Whether there is a loss that `rank` has not acknowledged.
  bool is_behind(int rank) const { return at(rank).epoch < lost.size(); }
  bool has_aborted(int rank, Scope scope) const { return !at(rank).aborted.empty() && at(rank).aborted.contains(scope); }
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

}  // namespace ripieno::simulation
