// The link to one peer over MPI. Every message begins with a header (frame.h), which travels on a tag of its own; a
// small payload travels with it, and a large one follows on the next payload tag, which both sides count. A large
// payload is received straight into the memory of its receive; before that is posted, it is fetched within the credit,
// or stays with the sender. So channels do not wait for each other.
//
// MPI cannot take back a message. When a scope ends, the receiver fetches what still comes in it and drops it, and
// operations whose memory MPI is using fail once it no longer does. A header that is an MpiHub::Part says that a rank
// has closed its link; it goes on fetching and dropping until the peer has closed it too. One that is an
// MpiHub::Farewell says how the rank itself ends.
#pragma once

#include <deque>

#include "ripieno/transport/mpi/hub.h"
#include "ripieno/transport/peer_link.h"

namespace ripieno::transport {

class MpiLink final : public PeerLink {
 public:
  /// `hub` drives it, and outlives what it has under way.
  MpiLink(Runtime& runtime, int rank, int peer, LinkOptions options, std::shared_ptr<Aborts> aborts,
          std::shared_ptr<MpiHub> hub)
      : PeerLink(runtime, rank, peer, options, std::move(aborts)), hub_(std::move(hub)) {}

  std::string way() const override { return "MPI"; }
  Task<> send(Message message, ConstBytes payload) override { return send(self(), message, payload); }
  void tell(const Abort& abort) override;

  // For the hub.
  /// A header has come, perhaps with its payload.
  void take(ConstBytes header);
  /// Whether no more headers are wanted: small unexpected payloads have used up the credit.
  bool is_paused() const { return !ended() && unasked_ > options_.unasked_bytes; }
  void say(MpiHub::Farewell farewell);
  std::optional<MpiHub::Farewell> heard() const { return heard_; }
  /// Whether it has ended otherwise than by the peer's closing.
  bool has_failed() const { return error_ || broken_ || (ended() && !peer_closed_); }
  /// Whether the peer has taken this part, or may yet.
  bool takes(const MpiHub::Part& part) const;
  /// MPI is called no more: nothing that is under way will end.
  void break_off(const std::string& why);

  /// The channel's first message that nobody has asked for, if it is here.
  struct Unasked {
    Message message;
    ConstBytes payload;
  };
  std::optional<Unasked> unasked(Channel channel) const;

 private:
  /// A send whose payload MPI may still be reading.
  struct Outgoing {
    Outgoing(Runtime& runtime, Scope scope) : scope(scope), done(runtime) {}
    Scope scope;
    std::size_t pieces = 0;    ///< under way
    std::exception_ptr error;  ///< thrown once none is
    Event done;
  };
  /// A message whose header has come.
  struct Incoming {
    Frame frame;
    int tag = -1;                    ///< of its payload; -1: that came with the header
    Scratch payload;                 ///< unless it is fetched straight into its receive
    std::size_t pieces = 0;          ///< under way
    bool fetched = false;            ///< the whole payload is here
    std::uint64_t cost = 0;          ///< the credit that it uses
    std::shared_ptr<Posted> posted;  ///< its receive
    bool dropped = false;
    std::exception_ptr error;  ///< of its receive, if it is dropped
  };
  using Queue = std::deque<std::shared_ptr<Incoming>>;

  std::shared_ptr<MpiLink> self() { return std::static_pointer_cast<MpiLink>(shared_from_this()); }
  static Task<> send(std::shared_ptr<MpiLink> link, Message message, ConstBytes payload);
  void send_header(const Frame& frame, ConstBytes with, const std::shared_ptr<Outgoing>& outgoing);
  void send_payload(ConstBytes payload, const std::shared_ptr<Outgoing>& outgoing);
  template <class T>
  void send_note(const T& note);
  static void end_piece(Outgoing& outgoing);

  void take(const Frame& frame, ConstBytes with, int tag);
  void advance(Channel channel);
  void advance_all();
  void keep(Channel channel);
  void bind(const std::shared_ptr<Incoming>& incoming, Lane& lane, const std::shared_ptr<Posted>& posted);
  void fetch(const std::shared_ptr<Incoming>& incoming, Bytes into);
  void fetch_aside(const std::shared_ptr<Incoming>& incoming);
  void has_fetched(const std::shared_ptr<Incoming>& incoming);
  void drop(const std::shared_ptr<Incoming>& incoming, std::exception_ptr error);
  void drop_payload(const Frame& frame, int tag);
  void end_if_closed();

  void asked() override;
  void drop(const Abort& abort) override;
  void hang_up() override;
  void fail_all();

  const std::shared_ptr<MpiHub> hub_;
  std::vector<std::weak_ptr<Outgoing>> outgoing_;
  std::map<Channel, Queue> incoming_;         ///< in the order of arrival, until received or kept in the lane
  Queue dropped_;                             ///< those to which MPI is writing
  std::uint32_t next_out_ = 0, next_in_ = 0;  ///< numbers of payloads that travel alone
  bool closed_ = false;
  std::optional<MpiHub::Part> peer_closed_;  ///< its part by then
  std::optional<MpiHub::Farewell> heard_;
  bool broken_ = false;
};

}  // namespace ripieno::transport
