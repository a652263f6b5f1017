// An endpoint around another one that enters every completed message in a ledger and reports it to a watcher. It is the
// only place where bytes are counted and messages numbered. Messages on one channel arrive in the order of sending, so
// both sides number them alike.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "ripieno/observe/ledger.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/transport/endpoint.h"

namespace ripieno::transport {

class CountedEndpoint final : public Endpoint {
 public:
  explicit CountedEndpoint(std::shared_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  observe::Ledger& ledger() { return ledger_; }
  /// Called with every completed message, on the runtime's thread. All ranks set it at the same point in their sequence
  /// of messages, so that they number them alike; while it is unset, messages are not numbered.
  std::function<void(const observe::CarriedMessage&)> on_message;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Runtime& runtime() override { return inner_->runtime(); }
  std::size_t framing_bytes(int peer) const override { return inner_->framing_bytes(peer); }
  std::shared_ptr<std::byte> memory(std::size_t bytes) override { return inner_->memory(bytes); }
  std::string way(int peer) const override { return inner_->way(peer); }
  std::vector<int> awaited() const override { return inner_->awaited(); }
  void find_hang(Duration waited, std::function<void(const Hang&)> found) override {
    inner_->find_hang(waited, std::move(found));
  }
  std::span<const EngineOperation> engine() const override { return inner_->engine(); }
  bool has_flushed() const override { return inner_->has_flushed(); }
  Task<> flush() override { return inner_->flush(); }
  void abort(Scope scope, const std::vector<int>& members, std::exception_ptr error) override {
    inner_->abort(scope, members, error);
  }
  void cut_off(std::exception_ptr error) override { inner_->cut_off(error); }
  void watch_aborts(std::function<void(Scope, std::exception_ptr)> watcher) override {
    inner_->watch_aborts(std::move(watcher));
  }
  Task<std::vector<int>> survivors() override {
    std::vector<int> alive = co_await inner_->survivors();
    // Messages in flight are lost, on some ranks before they were counted: numbering begins anew in a separate range.
    if (const std::size_t lost = static_cast<std::size_t>(size()) - alive.size(); lost != std::exchange(lost_, lost))
      begun_.clear();
    co_return alive;
  }

  Task<> send(int peer, Message message, ConstBytes payload) override {
    const std::optional<observe::CarriedMessage> began = begin("send", peer, message);
    co_await inner_->send(peer, message, payload);
    ledger_.sent(message.channel.purpose, payload.size(), inner_->framing_bytes(peer));
    tell(began, payload.size());
  }
  using Endpoint::receive;
  Task<> receive(int peer, Message message, Sink into) override {
    const std::optional<observe::CarriedMessage> began = begin("receive", peer, message);
    co_await inner_->receive(peer, message, into);
    ledger_.received(message.channel.purpose, into.payload(), inner_->framing_bytes(peer));
    tell(began, into.payload());
  }
  Task<> exchange(Outgoing out, Incoming in, std::function<void(std::exception_ptr)> on_error) override {
    if (on_message) return Endpoint::exchange(out, in, std::move(on_error));  // reports each message when it ends
    const Half sent{out.peer, out.message.channel.purpose, out.payload.size()},
        received{in.peer, in.message.channel.purpose, in.into.payload()};
    return counted(inner_->exchange(out, in, std::move(on_error)), sent, received);
  }
  void open_engine(Channel channel) override { inner_->open_engine(channel); }
  Task<> run_engine(Collective collective, Message message, NumberSpan numbers, EngineTerms terms = {}) override;

 private:
  struct Half {
    int peer;
    observe::Purpose purpose;
    std::uint64_t bytes;
  };
  void count_two_phase(const Message& message);
  void count_handed_over(Collective collective, const Message& message, int root);
  Task<> counted(Task<> exchange, Half out, Half in) {
    co_await std::move(exchange);
    ledger_.sent(out.purpose, out.bytes, inner_->framing_bytes(out.peer));
    ledger_.received(in.purpose, in.bytes, inner_->framing_bytes(in.peer));
  }
  /// nullopt without a watcher.
  std::optional<observe::CarriedMessage> begin(const char* how, int peer, const Message& message) {
    if (!on_message) return std::nullopt;
    const std::uint64_t first = static_cast<std::uint64_t>(lost_) << 16;
    const std::uint64_t sequence = begun_.try_emplace({how, peer, message.channel}, first).first->second++;
    return observe::CarriedMessage{
        how, peer, message.channel.purpose, message.channel.id, message.operation, 0, sequence, inner_->runtime().now(),
        {}};
  }
  void tell(std::optional<observe::CarriedMessage> message, std::uint64_t bytes) const {
    if (!message || !on_message) return;
    message->bytes = bytes;
    message->end = inner_->runtime().now();
    on_message(*message);
  }

  std::shared_ptr<Endpoint> inner_;
  observe::Ledger ledger_;
  std::map<std::tuple<std::string_view, int, Channel>, std::uint64_t> begun_;  // messages begun, while watched
  std::size_t lost_ = 0;                                                       // lost ranks
};

}  // namespace ripieno::transport
