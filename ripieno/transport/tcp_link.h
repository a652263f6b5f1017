// One TCP connection to one peer: sends in turn, and one coroutine (the pump) that reads whatever comes and hands it to
// the receive that waits for it, or keeps it within the peer's credit.
#pragma once

#include "ripieno/transport/peer_link.h"

namespace ripieno {

class TcpLink final : public PeerLink {
 public:
  /// `why` it is tcp and nothing faster, where that is worth saying.
  TcpLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, TcpOptions options, std::string why = "");

  void start();
  std::string way() const override { return why_.empty() ? "tcp" : text("tcp (", why_, ")"); }
  Task<> send(Message message, ConstBytes payload) override { return send(self(), message, payload); }

 private:
  std::shared_ptr<TcpLink> self() { return std::static_pointer_cast<TcpLink>(shared_from_this()); }
  static Task<> send(std::shared_ptr<TcpLink> link, Message message, ConstBytes payload);
  static Task<> pump(std::shared_ptr<TcpLink> link);
  Task<bool> pump_one();
  Task<bool> read(asio::mutable_buffer into);
  Task<bool> fill(Frame frame, std::shared_ptr<Posted> posted);
  Task<bool> keep(Frame frame, Lane* lane);
  Task<> changed();
  void asked() override;
  void hang_up() override;

  const std::string why_;
  asio::ip::tcp::socket socket_;
  Mutex writing_;
  Resume paused_;  ///< continues the pump
  std::unique_ptr<std::byte[]> scratch_;
};

}  // namespace ripieno
