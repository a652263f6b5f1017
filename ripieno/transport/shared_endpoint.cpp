#include "ripieno/transport/shared_endpoint.h"

#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>

#include "ripieno/transport/linked_endpoint.h"
#include "ripieno/transport/shared_hello.h"
#include "ripieno/transport/tcp_link.h"

namespace ripieno {
namespace {

using Sockets = std::vector<std::optional<asio::ip::tcp::socket>>;

class SharedEndpoint final : public LinkedEndpoint {
 public:
  SharedEndpoint(Runtime& runtime, int rank, std::vector<std::shared_ptr<PeerLink>> links,
                 std::shared_ptr<Aborts> aborts, std::shared_ptr<SharedHub> hub, std::shared_ptr<SharedAllReduce> all_reduce)
      : LinkedEndpoint(runtime, rank, std::move(links), aborts), hub_(std::move(hub)), all_reduce_(std::move(all_reduce)) {
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

  std::span<const EngineOperation> engine() const override {
    if (!all_reduce_) return {};
    return SharedAllReduce::operations;
  }
  Task<> run_engine(Collective collective, Message message, NumberSpan numbers) override {
    require(find_engine(collective, numbers.type, message.channel), "an all-reduce that is not there");
    return all_reduce_->run(message, numbers);
  }

 private:
  void close(std::exception_ptr error) override {
    if (all_reduce_) all_reduce_->revoke(error);
    LinkedEndpoint::close(error);
  }

  std::shared_ptr<SharedHub> hub_;
  std::shared_ptr<SharedAllReduce> all_reduce_;  ///< null where not all ranks share memory
};

/// The ranks' talk before they decide. Closes all connections when its time is over.
struct Talk {
  Talk(Runtime& runtime, int rank, Sockets sockets, Duration timeout)
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
      fail(ErrorKind::peer, "rank ", rank, ": gave up on rank ", peer, " after ", seconds(timeout),
           " s of agreeing on how to reach it");
    }
    if (error) {
      const std::string why = error == asio::error::eof ? "connection closed" : error.message();
      fail(ErrorKind::peer, "rank ", rank, ": lost rank ", peer, " (", why, ") while agreeing on how to reach it");
    }
  }

  Runtime& runtime;
  const int rank;
  const Duration timeout;
  Sockets sockets;
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

}  // namespace

Task<std::shared_ptr<Endpoint>> shared_endpoint(Runtime& runtime, int rank, Sockets peers, SharedOptions options) {
  require(options.ring_bytes >= 4 * line_bytes && options.ring_bytes % line_bytes == 0, "a ring of ",
          options.ring_bytes, " bytes");
  const int ranks = static_cast<int>(peers.size());
  std::vector<int> others;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peers[peer]) others.push_back(peer);
  }
  Talk talk(runtime, rank, std::move(peers), options.agreement);

  // 1. Everyone tells everyone what it shows. So few bytes never wait for their reader.
  const std::uint64_t word = check_word();
  std::shared_ptr<SharedHub> hub = options.shares && !others.empty() ? make_hub(runtime, ranks, options, word) : nullptr;
  SharedHello mine = shared_hello(hub.get(), word, options.ring_bytes);
  mine.shares = options.shares;
  for (const int peer : others) co_await talk.tell(peer, &mine, sizeof mine);
  std::vector<SharedHello> theirs(ranks);
  for (const int peer : others) co_await talk.hear(peer, &theirs[peer], sizeof mine);

  // 2. Each opens what it is shown, and says whether it could: a pair shares memory where both can.
  std::vector<std::optional<SharedPeer>> opened(ranks);
  std::vector<std::string> why(ranks);
  for (const int peer : others) {
    if (theirs[peer].magic != SharedHello::expected_magic) {
      fail(ErrorKind::mismatch, "rank ", rank, ": rank ", peer, " sent bytes that do not say how to reach it. Do all ",
           "ranks run the same version?");
    }
    if (theirs[peer].shares != mine.shares) {
      const auto is = [](const SharedHello& hello) { return hello.shares != 0 ? "on" : "off"; };
      fail(ErrorKind::mismatch, "shared memory is ", is(mine), " on rank ", rank, " and ", is(theirs[peer]), " on rank ", peer,
           ": set RIPIENO_SHARED_MEMORY to the same on all workers");
    }
    if (!options.shares) continue;
    opened[peer] = open_peer(mine, theirs[peer], rank, &why[peer]);
    const char could = opened[peer] ? 1 : 0;
    co_await talk.tell(peer, &could, 1);
  }
  for (const int peer : others) {
    if (!options.shares) break;
    char could = 0;
    co_await talk.hear(peer, &could, 1);
    if (could == 1) continue;
    if (opened[peer]) why[peer] = "the peer cannot open this rank's memory";
    opened[peer].reset();
  }

  // 3. Whether all of them share memory, as every rank sees it: then they have an all-reduce of their own.
  const auto alone = [&](int peer) { return !opened[peer]; };
  const char every = hub && !others.empty() && std::none_of(others.begin(), others.end(), alone) ? 1 : 0;
  bool all_share = every == 1;
  for (const int peer : others) co_await talk.tell(peer, &every, 1);
  for (const int peer : others) {
    char its = 0;
    co_await talk.hear(peer, &its, 1);
    all_share = all_share && its == 1;
  }

  // 4. The links.
  const auto aborts = std::make_shared<Aborts>(rank);
  std::vector<std::shared_ptr<PeerLink>> links(ranks);
  std::vector<std::shared_ptr<SharedLink>> shared(ranks);
  std::vector<SharedHello> beside;
  for (const int peer : others) {
    asio::ip::tcp::socket& socket = *talk.sockets[peer];
    beside.push_back(theirs[peer]);
    if (opened[peer]) {
      shared[peer] = std::make_shared<SharedLink>(runtime, rank, peer, std::move(socket), options.tcp, aborts, hub->own(),
                                                  std::move(*opened[peer]));
      links[peer] = shared[peer];
    } else {
      auto link = std::make_shared<TcpLink>(runtime, rank, peer, std::move(socket), options.tcp, aborts, why[peer]);
      link->start();
      links[peer] = link;
    }
  }
  const bool may_spin = cores_for_all(mine, beside);
  std::shared_ptr<SharedAllReduce> all_reduce;
  if (all_share) {
    all_reduce = std::make_shared<SharedAllReduce>(runtime, rank, shared, options.tcp, hub->own(), may_spin);
  }
  std::erase(shared, nullptr);
  if (hub) hub->start(std::move(shared), links, all_reduce, may_spin);
  std::shared_ptr<Endpoint> endpoint =
      std::make_shared<SharedEndpoint>(runtime, rank, std::move(links), aborts, std::move(hub), std::move(all_reduce));
  co_return endpoint;
}

}  // namespace ripieno
