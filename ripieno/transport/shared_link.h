// The way to one peer through shared memory: a ring of bytes in each direction (shared_ring.h) that carries what a TCP
// connection would, headers (tcp_frame.h) and payloads, each from the beginning of a line. A payload that lies in
// registered memory is not copied: a line with its place follows the header, the receiver takes it from there and gives
// the ticket back. The TCP connection stays open beside: its end is how the loss of the peer is noticed.
#pragma once

#include "ripieno/transport/peer_link.h"
#include "ripieno/transport/shared_arena.h"

namespace ripieno {

/// What one side of a pair has of the other's memory.
struct SharedPeer {
  SharedMemory head_memory, ring_memory;
  ControlHead* head = nullptr;
  RingReader ring;
  PeerRegions regions;
  FileDescriptor bell;  ///< of the pipe that wakes the peer

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
  /// Slots (shared_all_reduce.h), the arena's for good: a peer that is slower looks there for what this rank did last.
  std::byte* all_reduces = nullptr;
  std::size_t placed_bytes = 0;  ///< from this size on a payload in registered memory stays where it is
};

class SharedLink final : public PeerLink {
 public:
  SharedLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, TcpOptions options,
             std::shared_ptr<const SharedOwn> own, SharedPeer other);

  void start();
  std::string way() const override { return "shared memory"; }
  Task<> send(Message message, ConstBytes payload) override { return send(self(), message, payload); }

  /// Moves what can be moved. Whether there was anything.
  bool progress();
  /// Whether progress() would do anything.
  bool has_work();
  /// Copies what nobody has asked for out of the peer's memory, within the credit, so that the peer can go on: for when
  /// this rank is about to wait itself. Whether there was anything.
  bool take_in();

  // For all-reduces beside the messages (shared_all_reduce.h).
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
  /// A send that is not through.
  struct Outgoing {
    Outgoing(Runtime& runtime, Message message, ConstBytes payload)
        : message(message), payload(payload), done(runtime) {}
    Message message;
    ConstBytes payload;
    std::optional<Place> place;
    bool begun = false;        ///< its header is written
    std::uint64_t offset = 0;  ///< of what is not written yet
    bool sent = false;
    Event done;
  };
  /// The message that is arriving.
  struct Incoming {
    Frame frame;
    Lane* lane;
    std::shared_ptr<Posted> posted;  ///< who had asked when it began,
    std::optional<Arrived> arrived;  ///< or where it is kept; neither of them until decide()
    const std::byte* lies = nullptr;
    std::uint64_t ticket = 0;
    std::uint64_t offset = 0;
  };

  std::shared_ptr<SharedLink> self() { return std::static_pointer_cast<SharedLink>(shared_from_this()); }
  static Task<> send(std::shared_ptr<SharedLink> link, Message message, ConstBytes payload);
  bool write_now(const Message& message, ConstBytes payload);
  void write_header(const Message& message, std::uint64_t payload, std::optional<Place> place);
  void publish();
  static void complete(Outgoing& outgoing) {
    outgoing.sent = true;
    outgoing.done.set();
  }

  bool take_tickets();
  bool write();
  bool write_one(Outgoing& outgoing);
  bool read();
  bool read_header();
  bool decide();
  bool read_payload();
  void finish();
  void give(const Arrived& arrived, const Sink& sink) override;
  bool take_placed(const std::byte* lies, std::uint64_t bytes, std::uint64_t ticket, const Sink& sink);
  void withdrawn() { lose("connection closed"); }

  void asked() override;
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
  std::string gone_;  ///< why no more will come; what has come can still be received
};

}  // namespace ripieno
