// Decorates any endpoint: books every completed message in a ledger. The one seam at which bytes are counted.
#pragma once

#include <memory>

#include "ripieno/observe/ledger.h"
#include "ripieno/transport/endpoint.h"

namespace ripieno {

class CountedEndpoint final : public Endpoint {
 public:
  explicit CountedEndpoint(std::shared_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  const Ledger& ledger() const { return ledger_; }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Runtime& runtime() override { return inner_->runtime(); }
  std::size_t framing_bytes() const override { return inner_->framing_bytes(); }
  std::shared_ptr<std::byte> memory(std::size_t bytes) override { return inner_->memory(bytes); }
  std::string way(int peer) const override { return inner_->way(peer); }
  void revoke(std::exception_ptr error) override { inner_->revoke(error); }
  std::vector<int> survivors() override { return inner_->survivors(); }

  Task<> send(int peer, Message message, ConstBytes payload) override {
    co_await inner_->send(peer, message, payload);
    ledger_.sent(peer, message.channel.purpose, payload.size(), inner_->framing_bytes());
  }
  Task<> receive(int peer, Message message, Bytes into) override {
    co_await inner_->receive(peer, message, into);
    ledger_.received(peer, message.channel.purpose, into.size(), inner_->framing_bytes());
  }
  Task<> receive(int peer, Message message, FloatSpan into, Reduce how) override {
    co_await inner_->receive(peer, message, into, how);
    ledger_.received(peer, message.channel.purpose, into.count * size_of(message.type), inner_->framing_bytes());
  }

 private:
  std::shared_ptr<Endpoint> inner_;
  Ledger ledger_;
};

}  // namespace ripieno
