// One TCP connection to one peer. Sends wait in one queue, from which each system call takes as much as it can. One
// coroutine (the pump) reads everything that arrives and hands it to the waiting receive, or keeps it within the peer's
// credit. Large payloads are read straight to their destination, and the kernel wakes this thread for large pieces only
// (SO_RCVLOWAT), since on a slow wire it shares its core with compute.
//
// A checksum follows each payload (the header has its own: frame.h). Both sides sum up piece by piece, right before the
// kernel takes the bytes or after it has given them, while they are in the cache.
//
// When a scope ends, a partly written message is completed from a copy, so that the stream stays in step; then the
// abort's frame follows, and messages still queued are dropped. The rest of an arriving payload is read and dropped; a
// pending read is cancelled before its memory is released. A link that gives up keeps its connection until the peer has
// read why, for at most telling_limit.
#pragma once

#include <deque>

#include "ripieno/transport/peer_link.h"
#include "ripieno/transport/tcp/endpoint.h"
#include "ripieno/transport/tcp/farewell.h"

namespace ripieno::transport {

class TcpLink final : public PeerLink {
 public:
  /// `why`: why the link uses tcp and nothing faster, if that is worth saying.
  TcpLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, TcpOptions options,
          std::shared_ptr<Aborts> aborts, std::string why = "");

  void start();
  std::size_t framing_bytes() const override { return tcp_framing_bytes; }
  std::string way() const override { return why_.empty() ? "tcp" : text("tcp (", why_, ")"); }
  Task<> send(Message message, ConstBytes payload) override { return send(self(), message, payload); }
  void tell(const Abort& abort) override;
  void end_with_its_process() override;
  bool is_telling() const override;

 private:
  /// A message that is not completely written.
  struct Outgoing {
    Outgoing(Runtime& runtime, const Frame& frame, ConstBytes payload, int urgency)
        : header(encode(frame)), scope(frame.channel.scope), payload(payload), urgency(urgency), done(runtime) {}
    FrameBytes header;
    Scope scope;
    ConstBytes payload;
    int urgency;
    std::vector<std::byte> own;  ///< the payload, if this object owns it
    Checksum sum;
    std::uint64_t summed = 0;                         ///< bytes of the payload
    std::array<std::byte, checksum_bytes> trailer{};  ///< `sum`, once all is summed up
    std::uint64_t written = 0;                        ///< bytes of header, payload and trailer
    std::uint64_t size() const { return header.size() + payload.size() + trailer.size(); }
    bool tells = false;  ///< it is an abort
    bool sent = false;
    Event done;
  };

  static constexpr std::size_t scratch_bytes = 256 << 10;  ///< a chunk stays in the L2 cache until it is added
  static constexpr std::size_t stage_bytes = 16 << 10;

  std::shared_ptr<TcpLink> self() { return std::static_pointer_cast<TcpLink>(shared_from_this()); }
  static Task<> send(std::shared_ptr<TcpLink> link, Message message, ConstBytes payload);
  void queue(std::shared_ptr<Outgoing> outgoing);
  bool gather(Outgoing& outgoing, std::size_t& room);
  static void sum_up(Outgoing& outgoing, std::uint64_t end);
  static void keep_rest(Outgoing& outgoing);
  static void append_rest(Outgoing& outgoing, std::vector<std::byte>& bytes);
  void write();
  std::size_t write_some(asio::error_code& error);
  static Task<> write_rest(std::shared_ptr<TcpLink> link);
  static Task<> end_once_quiet(std::shared_ptr<TcpLink> link);
  static Task<> pump(std::shared_ptr<TcpLink> link);
  Task<bool> pump_one();
  Task<bool> hear(Frame frame);
  Task<bool> skip(std::uint64_t bytes);
  Task<std::uint64_t> read(Bytes into);
  Task<std::size_t> read_some(Bytes into, std::size_t wanted);
  Task<std::uint64_t> check(Frame frame);
  void wake_for(std::size_t bytes);
  Task<std::uint64_t> fill(Frame frame, Lane* lane);
  Task<std::uint64_t> keep(Frame frame, Lane* lane);
  bool stops() const { return ended() || dropped_; }
  Task<> changed();
  void asked() override;
  void drop(const Abort& abort) override;
  void hang_up() override;
  void say_farewell() override;

  const std::string why_;
  asio::ip::tcp::socket socket_;
  std::deque<std::shared_ptr<Outgoing>> outgoing_;
  std::vector<asio::const_buffer> gathered_;  ///< used by write_some()
  bool writing_rest_ = false;
  std::shared_ptr<const Farewell> farewell_;
  std::string unwritable_;         ///< why the peer takes no more; what is queued fails when the link ends
  Resume paused_;                  ///< continues the pump
  std::optional<Scope> arriving_;  ///< the scope of the arriving message
  bool dropped_ = false;           ///< the rest of it is to be dropped
  std::optional<Checksum> sum_;    ///< of what read() reads; nothing: it does not matter
  std::unique_ptr<std::byte[]> scratch_;
  std::unique_ptr<std::byte[]> stage_;  ///< small reads go here, with the bytes that follow
  ConstBytes ahead_;                    ///< bytes of the stage not yet consumed
  std::size_t wakes_for_ = 1;           ///< bytes
  std::size_t most_wake_ = 0;           ///< the kernel's room when last queried
};

}  // namespace ripieno::transport
