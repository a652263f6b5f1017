#include "ripieno/transport/tcp.h"

#include "ripieno/transport/tcp_link.h"

namespace ripieno {
namespace {

class TcpEndpoint final : public Endpoint {
 public:
  TcpEndpoint(Runtime& runtime, int rank, std::vector<std::optional<asio::ip::tcp::socket>> peers, TcpOptions options)
      : runtime_(runtime), rank_(rank), links_(peers.size()) {
    require(rank >= 0 && rank < size(), "rank ", rank, " of ", size());
    for (int peer = 0; peer < size(); ++peer) {
      if (!peers[peer]) continue;
      require(peer != rank, "rank ", rank, " is connected to itself");
      links_[peer] = std::make_shared<TcpLink>(runtime, rank, peer, std::move(*peers[peer]), options);
      links_[peer]->start();
    }
  }

  ~TcpEndpoint() override {
    revoke(std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", rank_, ": its endpoint was closed"))));
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links_.size()); }
  Runtime& runtime() override { return runtime_; }
  std::size_t framing_bytes() const override { return frame_bytes; }

  Task<> send(int peer, Message message, ConstBytes payload) override {
    return TcpLink::send(link(peer), message, payload);
  }
  Task<> receive(int peer, Message message, Bytes into) override {
    return TcpLink::receive(link(peer), message, Sink(into));
  }
  Task<> receive(int peer, Message message, FloatSpan into, Reduce how) override {
    require(into.count == message.count, "a receive of ", describe(message), " into ", into.count, " elements");
    return TcpLink::receive(link(peer), message, Sink(into, message.type, how));
  }

  void revoke(std::exception_ptr error) override {
    for (auto& link : links_) {
      if (link) link->revoke(error);
    }
  }

  std::vector<int> survivors() override {
    fail(ErrorKind::peer, "rank ", rank_, ": over tcp a lost rank ends the job");
  }

 private:
  std::shared_ptr<TcpLink> link(int peer) const {
    require(peer >= 0 && peer < size() && links_[peer], "rank ", rank_, " has no connection to rank ", peer, " of ",
            size());
    return links_[peer];
  }

  Runtime& runtime_;
  const int rank_;
  std::vector<std::shared_ptr<TcpLink>> links_;
};

}  // namespace

std::shared_ptr<Endpoint> tcp_endpoint(Runtime& runtime, int rank,
                                       std::vector<std::optional<asio::ip::tcp::socket>> peers, TcpOptions options) {
  return std::make_shared<TcpEndpoint>(runtime, rank, std::move(peers), options);
}

}  // namespace ripieno
