// Decorates any endpoint: books every completed message in a ledger, and tells who watches. The one seam at which bytes are
// counted.
#pragma once

#include <functional>
#include <memory>

#include "ripieno/core/range.h"
#include "ripieno/observe/ledger.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/transport/endpoint.h"

namespace ripieno {

class CountedEndpoint final : public Endpoint {
 public:
  explicit CountedEndpoint(std::shared_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  const Ledger& ledger() const { return ledger_; }
  /// Is told of every completed message, on the runtime's thread.
  std::function<void(const CarriedMessage&)> on_message;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Runtime& runtime() override { return inner_->runtime(); }
  std::size_t framing_bytes() const override { return inner_->framing_bytes(); }
  std::shared_ptr<std::byte> memory(std::size_t bytes) override { return inner_->memory(bytes); }
  std::string way(int peer) const override { return inner_->way(peer); }
  bool has_all_reduce(const Message& message) const override { return inner_->has_all_reduce(message); }
  bool has_flushed() const override { return inner_->has_flushed(); }
  Task<> flush() override { return inner_->flush(); }
  void revoke(std::exception_ptr error) override { inner_->revoke(error); }
  std::vector<int> survivors() override { return inner_->survivors(); }

  Task<> send(int peer, Message message, ConstBytes payload) override {
    const Duration begin = runtime().now();
    co_await inner_->send(peer, message, payload);
    ledger_.sent(peer, message.channel.purpose, payload.size(), inner_->framing_bytes());
    tell("send", peer, message, payload.size(), begin);
  }
  Task<> receive(int peer, Message message, Bytes into) override {
    const Duration begin = runtime().now();
    co_await inner_->receive(peer, message, into);
    ledger_.received(peer, message.channel.purpose, into.size(), inner_->framing_bytes());
    tell("receive", peer, message, into.size(), begin);
  }
  Task<> receive(int peer, Message message, FloatSpan into, Reduce how) override {
    const Duration begin = runtime().now();
    co_await inner_->receive(peer, message, into, how);
    ledger_.received(peer, message.channel.purpose, into.count * size_of(message.type), inner_->framing_bytes());
    tell("receive", peer, message, into.count * size_of(message.type), begin);
  }
  /// Booked as the messages of the route two-phase.
  Task<> all_reduce(Message message, FloatSpan numbers) override {
    const Duration begin = runtime().now();
    co_await inner_->all_reduce(message, numbers);
    tell("all-reduce", -1, message, numbers.count * size_of(message.type), begin);
    const auto bytes = [&](int owner) { return chunk(message.count, size(), owner).size() * size_of(message.type); };
    const auto own = bytes(rank());
    const Purpose purpose = message.channel.purpose;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const auto its = bytes(peer);
      for (int phase = 0; phase < 2; ++phase) {
        const auto out = phase == 0 ? its : own, in = phase == 0 ? own : its;
        if (out > 0) ledger_.sent(peer, purpose, out, inner_->framing_bytes());
        if (in > 0) ledger_.received(peer, purpose, in, inner_->framing_bytes());
      }
    }
  }

 private:
  void tell(const char* how, int peer, const Message& message, std::uint64_t bytes, Duration begin) const {
    if (on_message) on_message({how, peer, message.channel.purpose, message.channel.id, message.operation, bytes, begin, inner_->runtime().now()});
  }

  std::shared_ptr<Endpoint> inner_;
  Ledger ledger_;
};

}  // namespace ripieno
