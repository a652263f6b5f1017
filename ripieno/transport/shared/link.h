// The link to one peer through shared memory: a ring of bytes in each direction (ring.h) carries the same as a TCP
// connection, headers (frame.h) and payloads, each at the start of a line. A payload in registered memory is not
// copied: a line with its place follows the header, the receiver reads it there and gives the ticket back. The TCP
// connection stays open: if it ends, the peer is lost.
//
// When a scope ends, a partly written message is completed from a copy; then the abort's frame follows, and messages
// still queued are dropped. A send whose payload the peer may be reading in place fails once its ticket is back; the
// peer returns the ticket as soon as it reads of the abort. A link that gives up keeps its connection until the peer
// can read why, for at most telling_limit.
#pragma once

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <deque>

#include "ripieno/transport/peer_link.h"
#include "ripieno/transport/shared/arena.h"

namespace ripieno::transport {

/// The header's byte that marks a message whose place follows instead of its payload.
inline constexpr std::size_t placed_mark = 38;

/// The line that follows the header of a payload in registered memory.
struct PlaceLine {
  std::uint64_t offset, ticket;
  std::uint32_t region;
};

/// One side's view of the other's memory.
struct SharedPeer {
  SharedMemory head_memory, ring_memory;
  ControlHead* head = nullptr;
  RingReader ring;
  PeerRegions regions;
  Descriptor bell;  ///< the pipe that wakes the peer

  /// Wakes the peer if it sleeps. Call it after the store that the peer is to see.
  void ring_bell();
  /// Wakes the peer if it sleeps and waits for a peer.
  void wake_if_waiting() {
    if (head->sleeping.load(std::memory_order_seq_cst) & ControlHead::waiting) ring_bell();
  }
};

/// This rank's side, shared by its links.
struct SharedOwn {
  std::shared_ptr<SharedControl> control;
  std::shared_ptr<SharedArena> arena;
  /// The slots (all_reduce.h), never freed: a slower peer looks there for what this rank did last.
  std::byte* all_reduces = nullptr;
  std::size_t placed_bytes = 0;  ///< from this size on, payloads in registered memory are not copied
};

class SharedLink final : public PeerLink {
 public:
  SharedLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, LinkOptions options,
             std::shared_ptr<Aborts> aborts, std::shared_ptr<const SharedOwn> own, SharedPeer other);

  void start();
  std::string way() const override { return "shared memory"; }
  Task<> send(Message message, ConstBytes payload) override { return send(self(), message, payload); }
  void tell(const Abort& abort) override;
  void end_with_its_process() override { gone("its process has ended"); }
  void cut_off(std::exception_ptr error) override;
  bool is_telling() const override {
    return std::any_of(outgoing_.begin(), outgoing_.end(), [](const auto& one) { return one->tells; });
  }

  /// Sends and receives what it can. Returns whether there was anything.
  bool progress();
  /// Whether progress() would do anything.
  bool has_work();
  /// Copies unexpected payloads out of the peer's memory, within the credit, so that the peer can go on. Called when
  /// this rank is about to wait itself. Returns whether there was anything.
  bool take_in();

  /// Ends a farewell: from now on nobody calls progress().
  void leave() {
    if (lingers()) close_connection();
  }

  // For all-reduces beside the messages (all_reduce.h).
  SharedPeer& other() { return other_; }
  /// Whether the peer is gone, and the error of an operation that waits for it.
  bool has_ended() const override { return ended() || !gone_.empty(); }
  std::exception_ptr end_of(const Message& waiting) const {
    return ended() ? failure("waiting for", waiting) : loss(gone_, "waiting for", waiting);
  }
  /// The first unexpected message on a channel.
  std::optional<Frame> unasked(Channel channel) const;
  /// Whether everything that the peer has sent has been read.
  bool has_read_all() const { return !incoming_ && !ended() && other_.ring.readable() == 0; }

 private:
  /// A send that is not finished, or an abort to announce.
  struct Outgoing {
    Outgoing(Runtime& runtime, Message message, ConstBytes payload)
        : message(message), payload(payload), done(runtime) {}
    Outgoing(Runtime& runtime, const Frame& tells, std::vector<std::byte> reason)
        : payload(reason), own(std::move(reason)), tells(tells), done(runtime) {}
    Message message;
    ConstBytes payload;
    std::vector<std::byte> own;  ///< the payload, if this object owns it
    std::optional<Frame> tells;  ///< the frame of an abort, instead of a message
    std::optional<Place> place;
    bool begun = false;        ///< its header is written
    std::uint64_t offset = 0;  ///< of the first unwritten byte
    bool sent = false;
    std::exception_ptr error;  ///< thrown once its ticket is back
    Event done;
  };
  /// The message or abort that is arriving.
  struct Incoming {
    Frame frame;
    Lane* lane;                           ///< null: an abort, or a message to drop
    std::shared_ptr<Posted> posted;       ///< the receive that was posted when it began,
    std::optional<Arrived> arrived;       ///< or where it is kept; neither is set before decide()
    const std::byte* in_place = nullptr;  ///< the payload in the sender's memory; null: in the ring
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
  /// Whether the arriving message waits for its receive because it exceeds the credit.
  bool is_paused() const {
    return incoming_ && incoming_->lane && !incoming_->posted && !incoming_->arrived && incoming_->lane->posted.empty();
  }
  bool read_payload();
  void finish();
  void give(const Arrived& arrived, const Sink& sink) override;
  bool take_placed(const std::byte* in_place, std::uint64_t bytes, std::uint64_t ticket, const Sink& sink);
  void give_back(std::uint64_t ticket) {
    other_.ring.give_back(ticket);
    other_.ring_bell();
  }
  void withdrawn() { lose("connection closed"); }
  /// give_up() because of the message that arrives.
  void refuse(std::exception_ptr error);

  void asked() override;
  void drop(const Abort& abort) override;
  void drop_outgoing(const Abort& abort);
  static void keep_rest(Outgoing& outgoing);
  void forget(const Arrived& arrived) override;
  void hang_up() override;
  void say_farewell() override;
  /// Writes on after the link's end. Returns whether there was anything.
  bool say_rest();
  void close_connection();
  bool lingers() const { return farewell_.has_value(); }
  void gone(const std::string& why);
  void end_if_drained();
  void fail_sends(const std::string& why);

  asio::ip::tcp::socket socket_;
  std::byte stray_{};  ///< for a byte on the connection, which must not come
  std::shared_ptr<const SharedOwn> own_;
  SharedPeer other_;
  RingWriter ring_;
  std::deque<std::shared_ptr<Outgoing>> outgoing_;                 ///< in turn
  std::map<std::uint64_t, std::shared_ptr<Outgoing>> placed_out_;  ///< by ticket
  std::uint64_t next_ticket_ = 0;
  std::optional<Incoming> incoming_;
  std::size_t placed_in_ = 0;               ///< arrived messages whose payload is still in the peer's memory
  std::optional<Runtime::Timer> farewell_;  ///< while it has ended but is telling the peer why: when that ends
  std::string gone_;                        ///< why no more will arrive; arrived messages can still be received
};

}  // namespace ripieno::transport
