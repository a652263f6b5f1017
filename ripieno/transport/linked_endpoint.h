// An endpoint with a link of any kind to each peer. An abort ends its scope on all links and is sent to the members;
// each member passes it on once its own communicator is aborted. So an abort reaches every member that can be reached
// from one that has heard of it. flush() waits until the peers have been told, for at most telling_limit.
#pragma once

#include <algorithm>

#include "ripieno/transport/peer_link.h"

namespace ripieno::transport {

class LinkedEndpoint : public Endpoint {
 public:
  /// links[r] leads to rank r; links[rank] is empty. All links were made with `aborts`.
  LinkedEndpoint(Runtime& runtime, int rank, std::vector<std::shared_ptr<PeerLink>> links,
                 std::shared_ptr<Aborts> aborts)
      : runtime_(runtime), rank_(rank), links_(std::move(links)), aborts_(std::move(aborts)) {
    require(rank >= 0 && rank < LinkedEndpoint::size(), "rank ", rank, " of ", links_.size());
    require(!links_[rank], "rank ", rank, " is connected to itself");
    for (const auto& link : links_) {
      if (!link) continue;
      aborts_->watch([weak = std::weak_ptr(link)](const Abort& abort) {
        if (const auto alive = weak.lock()) alive->end(abort);
      });
    }
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

  std::vector<int> awaited() const override {
    std::vector<int> ranks;
    for (int peer = 0; peer < size(); ++peer) {
      if (links_[static_cast<std::size_t>(peer)] && links_[static_cast<std::size_t>(peer)]->waits())
        ranks.push_back(peer);
    }
    return ranks;
  }

  void abort(Scope scope, const std::vector<int>& members, std::exception_ptr error) override {
    aborts_->end(scope, error);
    for (const int member : members) {
      if (member != rank_ && aborts_->must_tell(scope, member)) link(member).tell(*aborts_->find(scope));
    }
  }
  void cut_off(std::exception_ptr error) override {
    for (const auto& link : links_) {
      if (link) link->cut_off(error);
    }
  }
  void watch_aborts(std::function<void(Scope, std::exception_ptr)> watcher) override {
    aborts_->watch([watcher = std::move(watcher)](const Abort& abort) { watcher(abort.scope, abort.error); });
  }

  Task<> flush() override { return flush(&runtime_, links_); }

  std::vector<int> survivors() override {
    fail(ErrorKind::peer, "rank ", rank_, ": a lost rank ends the job over these links");
  }

 protected:
  /// Ends everything: every pending and future operation fails with `error`.
  virtual void close(std::exception_ptr error) {
    for (auto& link : links_) {
      if (link) link->revoke(error);
    }
  }
  std::exception_ptr closed() const {
    return std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", rank_, ": its endpoint was closed")));
  }

 private:
  using Links = std::vector<std::shared_ptr<PeerLink>>;

  static bool is_any_telling(const Links& links) {
    return std::any_of(links.begin(), links.end(), [](const auto& link) { return link && link->is_telling(); });
  }
  static Task<> flush(Runtime* runtime, Links links) {
    const Duration limit = runtime->now() + telling_limit;
    while (is_any_telling(links) && runtime->now() < limit) co_await runtime->sleep(std::chrono::milliseconds(1));
  }
  PeerLink& link(int peer) const {
    require(peer >= 0 && peer < size() && links_[peer], "rank ", rank_, " has no connection to rank ", peer, " of ",
            size());
    return *links_[peer];
  }

  Runtime& runtime_;
  const int rank_;
  std::vector<std::shared_ptr<PeerLink>> links_;
  const std::shared_ptr<Aborts> aborts_;
};

}  // namespace ripieno::transport
