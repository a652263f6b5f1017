// An endpoint that has a link to each peer, whatever kind each of them is.
#pragma once

#include "ripieno/transport/peer_link.h"

namespace ripieno {

class LinkedEndpoint : public Endpoint {
 public:
  /// links[r] leads to rank r; links[rank] is empty.
  LinkedEndpoint(Runtime& runtime, int rank, std::vector<std::shared_ptr<PeerLink>> links)
      : runtime_(runtime), rank_(rank), links_(std::move(links)) {
    require(rank >= 0 && rank < LinkedEndpoint::size(), "rank ", rank, " of ", links_.size());
    require(!links_[rank], "rank ", rank, " is connected to itself");
  }
  ~LinkedEndpoint() override { LinkedEndpoint::close(closed()); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links_.size()); }
  Runtime& runtime() override { return runtime_; }
  std::size_t framing_bytes() const override { return frame_bytes; }

  Task<> send(int peer, Message message, ConstBytes payload) override { return link(peer).send(message, payload); }
  using Endpoint::receive;
  Task<> receive(int peer, Message message, Sink into) override { return link(peer).receive(message, into); }

  std::string way(int peer) const override { return link(peer).way(); }

  void abort(Scope, const std::vector<int>&, std::exception_ptr error) override { close(error); }

  std::vector<int> survivors() override {
    fail(ErrorKind::peer, "rank ", rank_, ": over tcp a lost rank ends the job");
  }

 protected:
  /// Ends everything: every operation, pending and to come, fails with `error`.
  virtual void close(std::exception_ptr error) {
    for (auto& link : links_) {
      if (link) link->revoke(error);
    }
  }
  std::exception_ptr closed() const {
    return std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", rank_, ": its endpoint was closed")));
  }

 private:
  PeerLink& link(int peer) const {
    require(peer >= 0 && peer < size() && links_[peer], "rank ", rank_, " has no connection to rank ", peer, " of ",
            size());
    return *links_[peer];
  }

  Runtime& runtime_;
  const int rank_;
  std::vector<std::shared_ptr<PeerLink>> links_;
};

}  // namespace ripieno
