#include "ripieno/transport/shaped.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <deque>
#include <map>
#include <utility>

#include "ripieno/core/async.h"

namespace ripieno::transport {
namespace {

class ShapedEndpoint final : public Endpoint, public std::enable_shared_from_this<ShapedEndpoint> {
 public:
  ShapedEndpoint(std::shared_ptr<Endpoint> inner, Shape shape) : inner_(std::move(inner)), shape_(shape) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Runtime& runtime() override { return inner_->runtime(); }
  std::size_t framing_bytes(int peer) const override { return inner_->framing_bytes(peer); }
  std::shared_ptr<std::byte> memory(std::size_t bytes) override { return inner_->memory(bytes); }
  void abort(Scope scope, const std::vector<int>& members, std::exception_ptr error) override {
    drop(scope, error);
    inner_->abort(scope, members, error);
  }
  void watch_aborts(std::function<void(Scope, std::exception_ptr)> watcher) override {
    inner_->watch_aborts(std::move(watcher));
  }
  /// A scope has ended: its sends fail, and parcels that have not arrived are dropped.
  void drop(Scope scope, std::exception_ptr error) {
    if (!aborted_.emplace(scope, error).second) return;
    for (auto& [peer, wire] : wires_) {
      std::erase_if(wire.parcels, [&](const std::shared_ptr<Parcel>& parcel) {
        if (parcel->message.channel.scope != scope) return false;
        parcel->error = error;
        for (Event* event : {&parcel->has_left, &parcel->has_arrived, &parcel->handed_over}) event->set();
        ended_one();
        return true;
      });
    }
  }
  Task<std::vector<int>> survivors() override { return inner_->survivors(); }
  std::vector<int> awaited() const override { return inner_->awaited(); }
  void find_hang(Duration waited, std::function<void(const Hang&)> found) override {
    inner_->find_hang(waited, std::move(found));
  }
  std::string way(int peer) const override {
    std::string how = inner_->way(peer) + ", shaped to";
    if (shape_.mbit_s > 0) how += text(" ", shape_.mbit_s, " Mb/s");
    if (shape_.delay.count() > 0) how += text(" ", seconds(shape_.delay) * 1e3, " ms");
    return how;
  }

  Task<> send(int peer, Message message, ConstBytes payload) override {
    // 1. The card sends the parcel after earlier ones.
    const auto aborted = aborted_.find(message.channel.scope);
    if (aborted != aborted_.end()) std::rethrow_exception(aborted->second);
    Runtime& clock = runtime();
    const double bytes = static_cast<double>(payload.size() + framing_bytes(peer));
    const Duration on_card = shape_.mbit_s > 0 ? from_seconds(8e-6 * bytes / shape_.mbit_s) : Duration(0);
    card_free_ = std::max(card_free_, clock.now()) + on_card;
    const Duration sent = card_free_;
    // 2. The parcel travels on its own, behind earlier ones to the same peer.
    auto parcel = std::make_shared<Parcel>(clock, message, payload, sent + shape_.delay);
    Wire& wire = wires_[peer];
    wire.parcels.push_back(parcel);
    ++under_way_;
    if (!std::exchange(wire.under_way, true))
      asio::co_spawn(clock.context(), carry(inner_, peer, &wire, shared_from_this()), asio::detached);
    // 3. Its sender goes on when the parcel has left; for a control message, when it has arrived, since it may be the
    //    last before this rank ends.
    if (message.channel.purpose == observe::Purpose::control) co_await parcel->handed_over.wait();
    const std::shared_ptr<Event> has_left(parcel, &parcel->has_left);
    co_await until(&clock, sent, has_left);
    if (parcel->error) std::rethrow_exception(parcel->error);
  }
  bool has_flushed() const override { return under_way_ == 0 && inner_->has_flushed(); }
  Task<> flush() override { return flush(shared_from_this()); }
  using Endpoint::receive;
  Task<> receive(int peer, Message message, Sink into) override { return inner_->receive(peer, message, into); }

 private:
  struct Parcel {
    Parcel(Runtime& runtime, const Message& message, ConstBytes payload, Duration arrives)
        : message(message),
          bytes(payload.data() ? std::vector<std::byte>(payload.begin(), payload.end()) : std::vector<std::byte>()),
          payload(payload.data() ? ConstBytes(bytes) : payload),
          arrives(arrives),
          has_left(runtime),
          has_arrived(runtime),
          handed_over(runtime) {}
    const Message message;
    const std::vector<std::byte> bytes;
    const ConstBytes payload;  // without data if the sender's payload has none
    const Duration arrives;
    Event has_left, has_arrived, handed_over;
    std::exception_ptr error;
  };

  /// The way to one peer.
  struct Wire {
    std::deque<std::shared_ptr<Parcel>> parcels;
    bool under_way = false;
  };

  /// Returns at `when`, or earlier if the event happens.
  static Task<> until(Runtime* clock, Duration when, std::shared_ptr<Event> event) {
    if (when <= clock->now()) co_return;
    const Runtime::Timer timer = clock->call_at(when, [event] { event->set(); });
    co_await event->wait();
    clock->cancel(timer);
  }

  /// Hands parcels over in order, each when it arrives; none waits for another's receiver.
  static Task<> carry(std::shared_ptr<Endpoint> inner, int peer, Wire* wire, std::shared_ptr<ShapedEndpoint> owner) {
    Runtime* clock = &inner->runtime();
    while (!wire->parcels.empty()) {
      const std::shared_ptr<Parcel> parcel = wire->parcels.front();
      const std::shared_ptr<Event> has_arrived(parcel, &parcel->has_arrived);
      co_await until(clock, parcel->arrives, has_arrived);
      if (wire->parcels.empty() || wire->parcels.front() != parcel) continue;  // dropped
      wire->parcels.pop_front();
      asio::co_spawn(clock->context(), hand_over(inner, peer, parcel, owner), asio::detached);
    }
    wire->under_way = false;
  }

  static Task<> hand_over(std::shared_ptr<Endpoint> inner, int peer, std::shared_ptr<Parcel> parcel,
                          std::shared_ptr<ShapedEndpoint> owner) {
    try {
      co_await inner->send(peer, parcel->message, parcel->payload);
    } catch (...) {
      parcel->error = std::current_exception();
    }
    parcel->handed_over.set();
    if (parcel->error) inner->abort(parcel->message.channel.scope, {}, parcel->error);  // its sender may no longer wait
    owner->ended_one();
  }

  void ended_one() {
    if (--under_way_ == 0 && all_arrived_) all_arrived_->set();
  }

  static Task<> flush(std::shared_ptr<ShapedEndpoint> endpoint) {
    while (endpoint->under_way_ > 0) {
      if (!endpoint->all_arrived_ || endpoint->all_arrived_->is_set()) {
        endpoint->all_arrived_ = std::make_shared<Event>(endpoint->runtime());
      }
      const std::shared_ptr<Event> all_arrived = endpoint->all_arrived_;
      co_await all_arrived->wait();
    }
    co_await endpoint->inner_->flush();
  }

  std::shared_ptr<Endpoint> inner_;
  Shape shape_;
  Duration card_free_{0};
  std::map<int, Wire> wires_;
  std::map<Scope, std::exception_ptr> aborted_;
  std::size_t under_way_ = 0;  ///< parcels not handed over yet
  std::shared_ptr<Event> all_arrived_;
};

}  // namespace

std::shared_ptr<Endpoint> shaped(std::shared_ptr<Endpoint> inner, Shape shape) {
  require(shape.delay.count() >= 0 && shape.mbit_s >= 0, "a link of ", shape.mbit_s, " Mb/s and ", seconds(shape.delay),
          " s of delay");
  const auto endpoint = std::make_shared<ShapedEndpoint>(inner, shape);
  inner->watch_aborts([weak = std::weak_ptr(endpoint)](Scope scope, std::exception_ptr error) {
    if (const auto alive = weak.lock()) alive->drop(scope, error);
  });
  return endpoint;
}

}  // namespace ripieno::transport
