// The way to one peer through shared memory: a ring of bytes in each direction (ring.h) that carries what a TCP
// connection would, headers (frame.h) and payloads, each from the beginning of a line. A payload that lies in
// registered memory is not copied: a line with its place follows the header, the receiver takes it from there and gives
// the ticket back. The TCP connection stays open beside: its end is how the loss of the peer is noticed.
//
// When a scope ends, what has been written of a message in part is written to its end, from a copy; then comes the
// frame that tells of it, and what was still queued is dropped. A send whose payload the peer may be reading where it
// lies fails once the ticket is back, which the peer gives at once when it hears of the end.
#pragma once

#include <asio/ip/tcp.hpp>

#include "ripieno/transport/peer_link.h"
#include "ripieno/transport/shared/arena.h"

namespace ripieno::transport {

/// The header's byte that says: a place follows, no payload.
inline constexpr std::size_t placed_mark = 38;

/// The line that follows the header of what lies in registered memory.
struct PlaceLine {
  std::uint64_t offset, ticket;
  std::uint32_t region;
};

/// What one side of a pair has of the other's memory.
struct SharedPeer {
  SharedMemory head_memory, ring_memory;
  ControlHead* head = nullptr;
  RingReader ring;
  PeerRegions regions;
  Descriptor bell;  ///< of the pipe that wakes the peer

  /// Wakes the peer if it sleeps. Follows the store of what it is woken for.
  void ring_bell();
  /// The same if it also waits for a peer.
  void wake_if_waiting() {
    if (head->sleeping.load(std::memory_order_seq_cst) & ControlHead::waiting) ring_bell();
  }
};

/// This rank's side, shared by its links.
struct SharedOwn {
  std::shared_ptr<SharedControl> control;
  std::shared_ptr<SharedArena> arena;
  /// Slots (all_reduce.h), the arena's for good: a peer that is slower looks there for what this rank did last.
  std::byte* all_reduces = nullptr;
  std::size_t placed_bytes = 0;  ///< from this size on a payload in registered memory stays where it is
};

class SharedLink final : public PeerLink {
 public:
  SharedLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, LinkOptions options,
             std::shared_ptr<Aborts> aborts, std::shared_ptr<const SharedOwn> own, SharedPeer other);

  void start();
  std::string way() const override { return "shared memory"; }
  Task<> send(Message message, ConstBytes payload) override { return send(self(), message, payload); }
  void tell(const Abort& abort) override;

  /// Moves what can be moved. Whether there was anything.
  bool progress();
  /// Whether progress() would do anything.
  bool has_work();
  /// Copies what nobody has asked for out of the peer's memory, within the credit, so that the peer can go on: for when
  /// this rank is about to wait itself. Whether there was anything.
  bool take_in();

  // For all-reduces beside the messages (all_reduce.h).
  SharedPeer& other() { return other_; }
  /// Whether the peer is gone, and why an operation failed for that.
  bool has_ended() const { return ended() || !gone_.empty(); }
  std::exception_ptr end_of(const Message& waiting) const {
    return ended() ? failure("waiting for", waiting) : loss(gone_, "waiting for", waiting);
  }
  /// The first message that has come on a channel unasked.
  std::optional<Frame> unasked(Channel channel) const;
  /// Whether there is nothing left to read of what the peer has sent.
  bool has_read_all() const { return !incoming_ && !ended() && other_.ring.readable() == 0; }

 private:
  /// A send that is not through, or what is told of an abort.
  struct Outgoing {
    Outgoing(Runtime& runtime, Message message, ConstBytes payload)
        : message(message), payload(payload), done(runtime) {}
    Outgoing(Runtime& runtime, const Frame& tells, std::vector<std::byte> reason)
        : payload(reason), own(std::move(reason)), tells(tells), done(runtime) {}
    Message message;
    ConstBytes payload;
    std::vector<std::byte> own;  ///< the payload, where it is nobody else's
    std::optional<Frame> tells;  ///< the frame of an abort, in the place of a message
    std::optional<Place> place;
    bool begun = false;        ///< its header is written
    std::uint64_t offset = 0;  ///< of what is not written yet
    bool sent = false;
    std::exception_ptr error;  ///< with which it ends once its ticket is back
    Event done;
  };
  /// What is arriving.
  struct Incoming {
    Frame frame;
    Lane* lane;                      ///< null: an abort, or a message that nobody wants
    std::shared_ptr<Posted> posted;  ///< who had asked when it began,
    std::optional<Arrived> arrived;  ///< or where it is kept; neither of them until decide()
    const std::byte* lies = nullptr;
    std::uint64_t ticket = 0;
    std::uint64_t offset = 0;
    std::string reason;  ///< of an abort
  };

  std::shared_ptr<SharedLink> self() { return std::static_pointer_cast<SharedLink>(shared_from_this()); }
  static Task<> send(std::shared_ptr<SharedLink> link, Message message, ConstBytes payload);
  bool write_now(const Message& message, ConstBytes payload);
  void write_header(const Outgoing& outgoing);
  void publish();
  static void complete(Outgoing& outgoing) {
    if (outgoing.error) return outgoing.done.fail(outgoing.error);
    outgoing.sent = true;
    outgoing.done.set();
  }

  bool take_tickets();
  bool write();
  bool write_one(Outgoing& outgoing);
  bool read();
  bool read_header();
  bool read_place();
  bool decide();
  /// Whether it is to be asked for first: it exceeds the credit.
  bool is_paused() const {
    return incoming_ && incoming_->lane && !incoming_->posted && !incoming_->arrived && incoming_->lane->posted.empty();
  }
  bool read_payload();
  void finish();
  void give(const Arrived& arrived, const Sink& sink) override;
  bool take_placed(const std::byte* lies, std::uint64_t bytes, std::uint64_t ticket, const Sink& sink);
  void give_back(std::uint64_t ticket) {
    other_.ring.give_back(ticket);
    other_.ring_bell();
  }
  void withdrawn() { lose("connection closed"); }

  void asked() override;
  void drop(const Abort& abort) override;
  void drop_outgoing(const Abort& abort);
  void forget(const Arrived& arrived) override;
  void hang_up() override;
  void gone(const std::string& why);
  void end_if_drained();
  void fail_sends(const std::string& why);

  asio::ip::tcp::socket socket_;
  std::byte stray_{};  ///< what the connection must not bring
  std::shared_ptr<const SharedOwn> own_;
  SharedPeer other_;
  RingWriter ring_;
  std::deque<std::shared_ptr<Outgoing>> outgoing_;                 ///< in turn
  std::map<std::uint64_t, std::shared_ptr<Outgoing>> placed_out_;  ///< by ticket
  std::uint64_t next_ticket_ = 0;
  std::optional<Incoming> incoming_;
  std::size_t placed_in_ = 0;  ///< arrived messages that lie with the peer
  std::string gone_;           ///< why no more will come; what has come can still be received
};

}  // namespace ripieno::transport
