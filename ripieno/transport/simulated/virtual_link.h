// A link in virtual time: what PeerLink is over connections, over messages that are each some time on their way. On one
// channel they arrive in the order of sending; messages on different channels may overtake each other. Nothing is lost
// but by a cut (linked_network.h) or a rank's end.
//
// A send ends when its bytes have left. It waits while more than the credit is on its way to the peer, or kept there
// until it is asked for. What an ended rank has sent arrives before its end does.
#pragma once

#include <deque>

#include "ripieno/transport/peer_link.h"

namespace ripieno::transport {

class VirtualWorld;

class VirtualLink final : public PeerLink {
 public:
  VirtualLink(Runtime& runtime, int rank, int peer, LinkOptions options, std::shared_ptr<Aborts> aborts,
              std::shared_ptr<VirtualWorld> world)
      : PeerLink(runtime, rank, peer, options, std::move(aborts)), world_(std::move(world)) {}

  std::string way() const override { return "a virtual link"; }
  Task<> send(Message message, ConstBytes payload) override {
    return send(std::static_pointer_cast<VirtualLink>(shared_from_this()), message, payload);
  }
  void tell(const Abort& abort) override;

  // Called by the world.
  void arrive(const Frame& frame, std::vector<std::byte> payload);
  void peer_ended();
  /// The peer has made room.
  void send_queued();
  std::uint64_t kept() const { return unasked_; }

 private:
  struct Queued {
    Queued(Runtime& runtime, Message message, const Frame& frame, ConstBytes payload)
        : message(message), frame(frame), payload(payload), done(runtime) {}
    Message message;
    Frame frame;
    ConstBytes payload;
    Event done;
  };

  static Task<> send(std::shared_ptr<VirtualLink> link, Message message, ConstBytes payload);
  void take(const Frame& frame, std::vector<std::byte> payload);
  Duration asleep_until() const override;
  void asked() override;
  void hang_up() override;
  void drop(const Abort& abort) override;

  const std::shared_ptr<VirtualWorld> world_;
  std::deque<std::shared_ptr<Queued>> queued_;
};

}  // namespace ripieno::transport
