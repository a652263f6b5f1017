// The engine's all-reduce for ranks that all share memory: the route two-phase (collective/two_phase.h), in place.
//
// 1. Each rank posts the place of its numbers in the channel's slot, which its peers can read.
// 2. When all have posted, each adds up its own chunk, a cache-sized piece at a time. It reads the peers' numbers in
//    place, in the route's order, rounds them to the wire's type, and writes the sum to every peer.
// 3. When all are done, the numbers may be used again, and a rank may end: its slots stay readable for slower peers.
//
// Stopping. Peers write to a rank's numbers during a call, so a failing call must not return before all peers have
// stopped. A rank whose scope 0 is aborted, or that has lost a peer, announces in its own cache line that it stops:
// from then on it touches no other rank's numbers, in any call. The others check that line before every piece and while
// they wait, and then stop too, with its reason. A call that has posted fails once no peer can be in it: each peer has
// stopped, has not posted yet (it posts first and checks then), is done with the call, or is gone. After that no call
// begins.
//
// Results and counted bytes are those of the route's messages. Of numbers outside registered memory the peers' chunks
// are copied through registered memory; a rank's own, which it alone reads, is added up where it is. A wait spins
// briefly, if each rank has a core and nothing is computed here, and then sleeps in the hub (hub.h), so that more
// workers than cores make progress.
#pragma once

#include <list>

#include "ripieno/core/async.h"
#include "ripieno/core/range.h"
#include "ripieno/transport/shared/link.h"

namespace ripieno::transport {

/// A rank's state of a channel's all-reduce: one cache line, which that rank alone writes.
struct alignas(line_bytes) AllReduceSlot {
  std::atomic<std::uint64_t> progress{0};  ///< 2 for every call that is done, plus 1 for one that is posted
  std::uint64_t count = 0;
  Place place;
  std::uint32_t epoch = 0;
  DType type = DType::fp32, wire = DType::fp32;
  std::array<char, 24> operation{};  ///< ends with a zero

  Message message(Channel channel) const { return {channel, operation.data(), wire, count}; }
};
static_assert(sizeof(AllReduceSlot) == line_bytes);

/// Whether a rank has stopped, and why; that rank alone writes it.
struct alignas(line_bytes) AllReduceStop {
  std::atomic<std::uint32_t> stopped{0};
  FrameBytes announced{};  ///< as over a connection
  std::array<char, most_reason> reason{};

  void set(const Abort& abort);
  /// Without an error yet.
  Abort abort() const;
};

/// The number of channels of every purpose that have a slot. Unused slots are never backed by memory.
inline constexpr std::uint32_t all_reduce_channels = 1 << 14;
inline constexpr std::size_t all_reduce_slots = all_reduce_channels * observe::purposes.size();
/// The slots, followed by the AllReduceStop.
inline constexpr std::size_t all_reduce_bytes = all_reduce_slots * sizeof(AllReduceSlot) + sizeof(AllReduceStop);
/// The place of the slots: every rank takes them first from its registered memory.
inline constexpr Place all_reduce_place{0, line_bytes};

/// Used on the runtime's thread alone.
class SharedAllReduce : public std::enable_shared_from_this<SharedAllReduce> {
 public:
  /// links[r] leads to rank r; links[rank] is empty. Error(network): a peer's slots cannot be mapped.
  SharedAllReduce(Runtime& runtime, int rank, const std::vector<std::shared_ptr<SharedLink>>& links,
                  LinkOptions options, std::shared_ptr<const SharedOwn> own, bool may_spin);

  /// The engine's operations (Endpoint::engine).
  static constexpr std::array operations{
      EngineOperation{Collective::all_reduce, DType::fp32, "two-phase", all_reduce_channels},
      EngineOperation{Collective::all_reduce, DType::fp64, "two-phase", all_reduce_channels}};
  Task<> run(Message message, NumberSpan numbers) { return run(shared_from_this(), message, numbers); }
  /// Makes every pending and future call fail; a pending call fails once no peer touches its numbers.
  /// After stop(): ends the links to peers that keep a call from ending, since they hang while they take part in it.
  void cut_off(std::exception_ptr error);
  void stop(const Abort& abort);
  /// As stop(), but at once: for when this rank's connections have ended.
  void revoke(std::exception_ptr error);

  /// The ranks that a call waits for.
  std::vector<int> awaited() const;

  // For the hub.
  /// Resumes calls that need not wait any more. Returns whether there was one.
  bool poll();
  bool has_work() const;
  bool waits() const { return !waiting_.empty(); }
  /// Ends with an Error(mismatch) calls that would wait forever because a peer does something else on the same channel.
  void find_mismatches();

 private:
  struct Peer {
    int rank;
    std::shared_ptr<SharedLink> link;
    const AllReduceSlot* slots;
    const AllReduceStop* stop;
  };
  /// A call that waits until every peer's progress in its slot is `target`.
  struct Waiting {
    Waiting(Runtime& runtime, Message message, std::size_t slot, std::uint64_t target)
        : message(message), slot(slot), target(target), since(runtime.now()), done(runtime) {}
    Message message;
    std::size_t slot;
    std::uint64_t target;
    Duration since;
    Event done;
  };
  struct Spare {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
  };

  static Task<> run(std::shared_ptr<SharedAllReduce> self, Message message, NumberSpan numbers);
  static Task<> wait(SharedAllReduce* self, Message message, std::size_t slot, std::uint64_t target);

  /// Numbers where peers can read them, but those of this rank's own chunk, which no peer reads.
  struct Readable {
    NumberSpan numbers;
    Place place;
    std::shared_ptr<std::byte> copy;  ///< of numbers outside registered memory; kept for the slot if small
  };
  Readable registered(NumberSpan numbers, Range mine, std::size_t slot);
  void post(const Message& message, const Readable& own, std::size_t slot, std::uint64_t progress);
  void announce(std::size_t slot, std::uint64_t progress);
  bool reached(const Peer& peer, std::size_t slot, std::uint64_t target) const {
    return peer.slots[slot].progress.load(std::memory_order_seq_cst) >= target;
  }
  bool all_reached(std::size_t slot, std::uint64_t target) const;
  /// Whether this rank has stopped; it stops if a peer has.
  bool has_stopped();
  bool any_peer_stopped() const;
  /// Whether no peer can still be in this rank's call.
  bool may_use(const Peer& peer, const Waiting& waiting) const;
  void end_complete();
  bool is_left_alone(const Waiting& waiting) const;
  void find_losses();
  /// Waits a moment; returns whether all have reached the target.
  bool spin(std::size_t slot, std::uint64_t target) const;
  std::vector<NumberSpan> numbers_of_peers(const Message& message, NumberSpan own, std::size_t slot);
  void reduce(NumberSpan own, const std::vector<NumberSpan>& peers, Range piece, DType wire);
  void watch();
  void expire();
  void give_up_on(const std::shared_ptr<Waiting>& call, const Hang& hang);
  /// Ends everything.
  void give_up(std::exception_ptr error);

  Runtime& runtime_;
  const int rank_, ranks_;
  const LinkOptions options_;
  const std::shared_ptr<const SharedOwn> own_;
  AllReduceSlot* const slots_;
  const bool may_spin_;
  std::vector<Peer> peers_;  ///< in the order in which their numbers are added: rank-1, rank-2, ..
  std::map<std::size_t, Spare> spare_;
  std::vector<std::byte> rounded_;  ///< a rounded piece, if the wire's type differs
  std::list<std::shared_ptr<Waiting>> waiting_;
  std::optional<Runtime::Timer> watchdog_;
  bool is_asking_ = false;  ///< who hangs, since a call is overdue
  std::exception_ptr error_;
  bool revoked_ = false;
};

}  // namespace ripieno::transport
