// One TCP connection to one peer: what is sent waits in one queue, of which each system call takes as much as it can;
// and one coroutine (the pump) reads whatever comes and hands it to the receive that waits for it, or keeps it within
// the peer's credit. Large payloads are read straight to where they belong, and the kernel is asked to wake this thread
// for large pieces only (SO_RCVLOWAT): on a thin wire it shares its core with compute.
//
// When a scope ends, what has been written of a message in part is written to its end, from a copy, so that the stream
// stays in step; then comes the frame that tells of it, and what was still queued is dropped. A payload that is
// arriving is read on and dropped: the read that is under way is taken back from the kernel before its memory is let
// go.
#pragma once

#include "ripieno/transport/peer_link.h"
#include "ripieno/transport/tcp/endpoint.h"

namespace ripieno::transport {

class TcpLink final : public PeerLink {
 public:
  /// `why` it is tcp and nothing faster, where that is worth saying.
  TcpLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, TcpOptions options,
          std::shared_ptr<Aborts> aborts, std::string why = "");

  void start();
  std::string way() const override { return why_.empty() ? "tcp" : text("tcp (", why_, ")"); }
  Task<> send(Message message, ConstBytes payload) override { return send(self(), message, payload); }
  void tell(const Abort& abort) override;

 private:
  /// A message that has not been written to its end.
  struct Outgoing {
    Outgoing(Runtime& runtime, const Frame& frame, ConstBytes payload, int urgency)
        : header(encode(frame)), scope(frame.channel.scope), payload(payload), urgency(urgency), done(runtime) {}
    FrameBytes header;
    Scope scope;
    ConstBytes payload;
    int urgency;
    std::vector<std::byte> own;  ///< the payload, where it is nobody else's
    std::uint64_t written = 0;   ///< bytes of header and payload
    bool sent = false;
    Event done;
  };

  std::shared_ptr<TcpLink> self() { return std::static_pointer_cast<TcpLink>(shared_from_this()); }
  static Task<> send(std::shared_ptr<TcpLink> link, Message message, ConstBytes payload);
  void queue(std::shared_ptr<Outgoing> outgoing);
  static void keep_rest(Outgoing& outgoing);
  void write();
  std::size_t write_some(asio::error_code& error);
  static Task<> write_rest(std::shared_ptr<TcpLink> link);
  std::exception_ptr broken(const char* doing, const Message& message) const;
  static Task<> pump(std::shared_ptr<TcpLink> link);
  Task<bool> pump_one();
  Task<bool> hear(Frame frame);
  Task<bool> skip(std::uint64_t bytes);
  Task<std::uint64_t> read(Bytes into);
  Task<std::size_t> read_some(Bytes into, std::size_t wanted);
  void wake_for(std::size_t bytes);
  Task<std::uint64_t> fill(Frame frame, Lane* lane);
  Task<std::uint64_t> keep(Frame frame, Lane* lane);
  bool stops() const { return ended() || dropped_; }
  Task<> changed();
  void asked() override;
  void drop(const Abort& abort) override;
  void hang_up() override;

  const std::string why_;
  asio::ip::tcp::socket socket_;
  std::deque<std::shared_ptr<Outgoing>> outgoing_;
  std::vector<asio::const_buffer> gathered_;  ///< write_some()'s
  bool writing_rest_ = false;
  std::string unwritable_;         ///< why nothing can be sent any more
  Resume paused_;                  ///< continues the pump
  std::optional<Scope> arriving_;  ///< of the message that is arriving
  bool dropped_ = false;           ///< nobody wants the rest of it
  std::unique_ptr<std::byte[]> scratch_;
  std::unique_ptr<std::byte[]> stage_;  ///< what is small is read into here, with what follows it
  ConstBytes ahead_;                    ///< of the stage, what has not been asked for yet
  std::size_t wakes_for_ = 1;           ///< bytes
  std::size_t most_wake_ = 0;           ///< what the kernel had room for when it was last asked
};

}  // namespace ripieno::transport
