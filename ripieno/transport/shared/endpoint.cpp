#include "ripieno/transport/shared/endpoint.h"

#include <algorithm>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>

#include "ripieno/transport/linked_endpoint.h"
#include "ripieno/transport/process_watch.h"
#include "ripieno/transport/shared/hello.h"
#include "ripieno/transport/tcp/link.h"

namespace ripieno::transport {
namespace {

using ProcessWatches = std::vector<std::shared_ptr<ProcessWatch>>;

class SharedEndpoint final : public LinkedEndpoint {
 public:
  SharedEndpoint(Runtime& runtime, int rank, std::vector<std::shared_ptr<PeerLink>> links,
                 std::shared_ptr<Aborts> aborts, std::shared_ptr<SharedHub> hub,
                 std::shared_ptr<SharedAllReduce> all_reduce, ProcessWatches processes)
      : LinkedEndpoint(runtime, rank, std::move(links), aborts),
        hub_(std::move(hub)),
        all_reduce_(std::move(all_reduce)),
        processes_(std::move(processes)) {
    if (!all_reduce_) return;
    aborts->watch([weak = std::weak_ptr(all_reduce_)](const Abort& abort) {
      const auto engine = weak.lock();
      if (engine && abort.scope == 0) engine->stop(abort);
    });
  }
  ~SharedEndpoint() override {
    SharedEndpoint::close(closed());
    if (hub_) hub_->close();
  }

  std::shared_ptr<std::byte> memory(std::size_t bytes) override {
    auto shared = hub_ ? hub_->own()->arena->take(bytes) : nullptr;
    return shared ? shared : Endpoint::memory(bytes);
  }

  void cut_off(std::exception_ptr error) override {
    LinkedEndpoint::cut_off(error);
    if (all_reduce_) all_reduce_->cut_off(error);
  }

  std::vector<int> awaited() const override {
    std::vector<int> ranks = LinkedEndpoint::awaited();
    if (!all_reduce_) return ranks;
    for (const int peer : all_reduce_->awaited()) ranks.push_back(peer);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }
  std::span<const EngineOperation> engine() const override {
    if (!all_reduce_) return {};
    return SharedAllReduce::operations;
  }
  Task<> run_engine(Collective collective, Message message, NumberSpan numbers, EngineTerms) override {
    require(find_engine("two-phase", collective, numbers.type, message.channel), "an all-reduce that is not there");
    return all_reduce_->run(message, numbers);
  }

 private:
  void close(std::exception_ptr error) override {
    if (all_reduce_) all_reduce_->revoke(error);
    LinkedEndpoint::close(error);
  }

  std::shared_ptr<SharedHub> hub_;
  std::shared_ptr<SharedAllReduce> all_reduce_;  ///< null unless all ranks share memory
  ProcessWatches processes_;
};

/// The ranks' negotiation. Closes all connections when its time is over.
struct Talk {
  Talk(Runtime& runtime, int rank, PeerSockets sockets, Duration timeout)
      : runtime(runtime), rank(rank), timeout(timeout), sockets(std::move(sockets)) {
    watchdog = runtime.call_at(runtime.now() + timeout, [this] {
      late = true;
      asio::error_code ignored;
      for (auto& socket : this->sockets) {
        if (socket) socket->close(ignored);
      }
    });
  }
  ~Talk() { runtime.cancel(watchdog); }

  Task<> tell(int peer, const void* data, std::size_t bytes) {
    asio::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const asio::const_buffer buffer(data, bytes);
    co_await asio::async_write(*sockets[peer], buffer, token);
    check(peer, error);
  }
  Task<> hear(int peer, void* data, std::size_t bytes) {
    asio::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const asio::mutable_buffer buffer(data, bytes);
    co_await asio::async_read(*sockets[peer], buffer, token);
    check(peer, error);
  }
  void check(int peer, asio::error_code error) const {
    if (late) {
      fail(Loss{peer, Lost::silent}, "rank ", rank, ": gave up on rank ", peer, " after ", seconds(timeout),
           " s of agreeing on how to reach it");
    }
    if (error) {
      const std::string why = error == asio::error::eof ? "connection closed" : error.message();
      fail(Loss{peer, Lost::ended}, "rank ", rank, ": lost rank ", peer, " (", why,
           ") while agreeing on how to reach it");
    }
  }

  Runtime& runtime;
  const int rank;
  const Duration timeout;
  PeerSockets sockets;
  Runtime::Timer watchdog{};
  bool late = false;
};

std::shared_ptr<SharedHub> make_hub(Runtime& runtime, int ranks, const SharedOptions& options, std::uint64_t word) {
  try {
    return std::make_shared<SharedHub>(runtime, ranks, options.ring_bytes, options.placed_bytes, word);
  } catch (const Error&) {
    return nullptr;  // this host has no shared memory: way() says so
  }
}

/// The steps by which a rank agrees on a link with every other rank.
class LinkAgreement {
 public:
  LinkAgreement(Runtime& runtime, int rank, PeerSockets peers, const SharedOptions& options)
      : runtime_(runtime),
        rank_(rank),
        options_(options),
        talk_(runtime, rank, std::move(peers), options.agreement),
        opened_(talk_.sockets.size()),
        why_(opened_.size()),
        theirs_(opened_.size()) {
    for (int peer = 0; peer < ranks(); ++peer) {
      if (talk_.sockets[peer]) others_.push_back(peer);
    }
  }

  /// 1. Every rank sends its hello to every other. So few bytes never block the sender.
  Task<> show() {
    const std::uint64_t word = check_word();
    if (options_.shares && !others_.empty()) hub_ = make_hub(runtime_, ranks(), options_, word);
    mine_ = shared_hello(hub_.get(), word, options_.ring_bytes);
    mine_.shares = options_.shares;
    for (const int peer : others_) co_await talk_.tell(peer, &mine_, sizeof mine_);
    for (const int peer : others_) co_await talk_.hear(peer, &theirs_[peer], sizeof mine_);
  }

  /// 2. Each opens its peers' memory and tells them whether it could: a pair shares memory if both could.
  Task<> open() {
    for (const int peer : others_) {
      check(peer);
      if (!options_.shares) continue;
      opened_[peer] = open_peer(mine_, theirs_[peer], rank_, &why_[peer]);
      const char could = opened_[peer] ? 1 : 0;
      co_await talk_.tell(peer, &could, 1);
    }
    for (const int peer : others_) {
      if (!options_.shares) break;
      char could = 0;
      co_await talk_.hear(peer, &could, 1);
      if (could == 1) continue;
      if (opened_[peer]) why_[peer] = "the peer cannot open this rank's memory";
      opened_[peer].reset();
    }
  }

  /// 3. All agree whether all pairs share memory: if so, the engine offers an all-reduce.
  Task<> compare() {
    const auto alone = [&](int peer) { return !opened_[peer]; };
    const char every = hub_ && !others_.empty() && std::none_of(others_.begin(), others_.end(), alone) ? 1 : 0;
    all_share_ = every == 1;
    for (const int peer : others_) co_await talk_.tell(peer, &every, 1);
    for (const int peer : others_) {
      char its = 0;
      co_await talk_.hear(peer, &its, 1);
      all_share_ = all_share_ && its == 1;
    }
  }

  /// 4. Makes the links.
  std::shared_ptr<Endpoint> endpoint() {
    const auto aborts = std::make_shared<Aborts>(rank_);
    std::vector<std::shared_ptr<PeerLink>> links(opened_.size());
    std::vector<std::shared_ptr<SharedLink>> shared(opened_.size());
    std::vector<SharedHello> beside;
    for (const int peer : others_) {
      asio::ip::tcp::socket& socket = *talk_.sockets[peer];
      beside.push_back(theirs_[peer]);
      if (opened_[peer]) {
        shared[peer] = std::make_shared<SharedLink>(runtime_, rank_, peer, std::move(socket), options_.link, aborts,
                                                    hub_->own(), std::move(*opened_[peer]));
        links[peer] = shared[peer];
      } else {
        const TcpOptions tcp{options_.link};
        auto link = std::make_shared<TcpLink>(runtime_, rank_, peer, std::move(socket), tcp, aborts, why_[peer]);
        link->start();
        links[peer] = link;
      }
    }
    const bool may_spin = cores_for_all(mine_, beside);
    std::shared_ptr<SharedAllReduce> all_reduce;
    if (all_share_) {
      all_reduce = std::make_shared<SharedAllReduce>(runtime_, rank_, shared, options_.link, hub_->own(), may_spin);
    }
    std::erase(shared, nullptr);
    if (hub_) hub_->start(std::move(shared), links, all_reduce, may_spin);
    ProcessWatches processes = watch(links);
    return std::make_shared<SharedEndpoint>(runtime_, rank_, std::move(links), aborts, hub_, std::move(all_reduce),
                                            std::move(processes));
  }

 private:
  int ranks() const { return static_cast<int>(opened_.size()); }

  /// Watches the processes of all peers on this host.
  ProcessWatches watch(const std::vector<std::shared_ptr<PeerLink>>& links) {
    ProcessWatches all;
    for (const int peer : others_) {
      const SharedHello& theirs = theirs_[peer];
      if (!same_host(mine_, theirs) || theirs.pid == mine_.pid) continue;
      auto ended = [link = std::weak_ptr(links[peer])] {
        if (const auto alive = link.lock()) alive->end_with_its_process();
      };
      if (auto one = ProcessWatch::start(runtime_, theirs.pid, ended)) all.push_back(std::move(one));
    }
    return all;
  }

  /// Error(mismatch): the peer's hello does not fit this rank's.
  void check(int peer) const {
    if (theirs_[peer].magic != SharedHello::expected_magic) {
      fail(ErrorKind::mismatch, "rank ", rank_, ": rank ", peer, " sent bytes that do not say how to reach it. Do all ",
           "ranks run the same version?");
    }
    if (theirs_[peer].shares == mine_.shares) return;
    const auto is = [](const SharedHello& hello) { return hello.shares != 0 ? "on" : "off"; };
    fail(ErrorKind::mismatch, "shared memory is ", is(mine_), " on rank ", rank_, " and ", is(theirs_[peer]),
         " on rank ", peer, ": set RIPIENO_SHARED_MEMORY to the same on all workers");
  }

  Runtime& runtime_;
  const int rank_;
  const SharedOptions options_;
  Talk talk_;
  std::vector<int> others_;
  std::shared_ptr<SharedHub> hub_;
  SharedHello mine_;
  std::vector<std::optional<SharedPeer>> opened_;
  std::vector<std::string> why_;  ///< why a peer's memory is not open
  std::vector<SharedHello> theirs_;
  bool all_share_ = false;
};

}  // namespace

Task<std::shared_ptr<Endpoint>> shared_endpoint(Runtime& runtime, int rank, PeerSockets peers, SharedOptions options) {
  require(options.ring_bytes >= 4 * line_bytes && options.ring_bytes % line_bytes == 0, "a ring of ",
          options.ring_bytes, " bytes");
  LinkAgreement agreement(runtime, rank, std::move(peers), options);
  co_await agreement.show();
  co_await agreement.open();
  co_await agreement.compare();
  co_return agreement.endpoint();
}

Task<std::shared_ptr<Endpoint>> join_by_host(Joining joining) {
  PeerSockets peers = co_await joining.connect();
  SharedOptions options;
  options.link = joining.link;
  options.agreement = joining.agreement;
  options.shares = joining.shares_memory;
  Task<std::shared_ptr<Endpoint>> making = shared_endpoint(joining.runtime, joining.rank, std::move(peers), options);
  co_return co_await std::move(making);
}

}  // namespace ripieno::transport
