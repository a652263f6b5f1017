// An endpoint with a link of any kind to each peer. An abort ends its scope on all links and is sent to the members;
// each member passes it on once its own communicator is aborted. So an abort reaches every member that can be reached
// from one that has heard of it. flush() waits until the peers have been told, for at most telling_limit. A link that
// ends fails its own operations alone.
#pragma once

#include <algorithm>

#include "ripieno/transport/inquiry.h"
#include "ripieno/transport/peer_link.h"

namespace ripieno::transport {

class LinkedEndpoint : public Endpoint {
 public:
  /// links[r] leads to rank r; links[rank] is empty. All links were made with `aborts`.
  LinkedEndpoint(Runtime& runtime, int rank, std::vector<std::shared_ptr<PeerLink>> links,
                 std::shared_ptr<Aborts> aborts)
      : runtime_(runtime),
        rank_(rank),
        links_(std::move(links)),
        aborts_(std::move(aborts)),
        inquiry_(std::make_shared<Inquiry>(runtime, rank, static_cast<int>(links_.size()), ways())),
        left_out_(links_.size()) {
    require(rank >= 0 && rank < LinkedEndpoint::size(), "rank ", rank, " of ", links_.size());
    require(!links_[rank], "rank ", rank, " is connected to itself");
    aborts_->answer_by(inquiry_);
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
  std::size_t framing_bytes(int peer) const override { return link(peer).framing_bytes(); }

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

  /// A note of views (membership/view_keeper.h), which may be lost with the link.
  void tell_of_views(int peer, const std::string& note) {
    const auto& link = links_.at(static_cast<std::size_t>(peer));
    if (link && !link->has_ended()) link->tell({views_scope, nullptr, rank_, note, {}});
  }
  void listen_to_views(Aborts::NoteListener listener) { aborts_->listen_to_views(std::move(listener)); }
  /// From now on calls `watcher` with each peer whose link ends.
  void watch_ends(std::function<void(int peer)> watcher) { aborts_->watch_ends(std::move(watcher)); }

  void find_hang(Duration waited, std::function<void(const Hang&)> found) override {
    inquiry_->ask(waited, std::move(found));
  }

  Task<> flush() override { return flush(&runtime_, links_); }

  /// Rank 0 decides who goes on, so that there are never two groups, and nobody goes on without it:
  ///
  /// 1. Each other rank tells it that it has stopped, and whom it has lost.
  /// 2. Rank 0 waits for all that it has not lost. It also leaves out whom another has lost: of two ranks that have
  ///    lost each other, the higher one.
  /// 3. It tells all that have come who is left out.
  ///
  /// Messages: at most 2 (P-1), of P bytes. A rank that is lost in between is left out, or else the next operation with
  /// it fails and the ranks agree anew. left_out(): the others have lost this rank. Error(peer): rank 0 is lost, or
  /// this rank has given up on one that may still be alive; so if a rank hangs, who waits for it ends, and rank 0 in
  /// the end.
  Task<std::vector<int>> survivors() override;

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
  Inquiry::Ways ways() {
    const auto tell = [this](int peer, const std::string& note) {
      const auto& link = links_[static_cast<std::size_t>(peer)];
      if (link && !link->has_ended()) link->tell({notes_scope, nullptr, rank_, note});
    };
    return {tell, [this] { return awaited(); }};
  }
  Task<> decide_who_is_left();
  Task<> ask_who_is_left();
  std::vector<std::uint8_t> lost() const;
  transport::Message about_survivors(std::string_view step) const;
  PeerLink& link(int peer) const {
    require(peer >= 0 && peer < size() && links_[peer], "rank ", rank_, " has no connection to rank ", peer, " of ",
            size());
    return *links_[peer];
  }

  Runtime& runtime_;
  const int rank_;
  std::vector<std::shared_ptr<PeerLink>> links_;
  const std::shared_ptr<Aborts> aborts_;
  const std::shared_ptr<Inquiry> inquiry_;
  std::vector<std::uint8_t> left_out_;  ///< by rank: whether the others go on without it
  std::uint32_t agreed_ = 0;            ///< how often they have agreed on that
};

}  // namespace ripieno::transport
