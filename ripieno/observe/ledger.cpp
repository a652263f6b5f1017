#include "ripieno/observe/ledger.h"

#include <vector>

namespace ripieno::observe {

const char* name(Purpose purpose) {
  switch (purpose) {
    case Purpose::setup:
      return "setup";
    case Purpose::exchange:
      return "exchange";
    case Purpose::evaluate:
      return "evaluate";
    case Purpose::control:
      return "control";
  }
  return "unknown";
}

Traffic& Traffic::operator+=(const Traffic& other) {
  payload_sent += other.payload_sent;
  payload_received += other.payload_received;
  framing_sent += other.framing_sent;
  framing_received += other.framing_received;
  messages_sent += other.messages_sent;
  messages_received += other.messages_received;
  return *this;
}

Traffic Traffic::operator-(const Traffic& earlier) const {
  return {payload_sent - earlier.payload_sent,   payload_received - earlier.payload_received,
          framing_sent - earlier.framing_sent,   framing_received - earlier.framing_received,
          messages_sent - earlier.messages_sent, messages_received - earlier.messages_received};
}

void Ledger::sent(Purpose purpose, std::uint64_t payload, std::uint64_t framing) {
  const Traffic message{.payload_sent = payload, .framing_sent = framing, .messages_sent = 1};
  totals_[static_cast<std::size_t>(purpose)] += message;
  if (purpose == Purpose::exchange) open_ += message;
}

void Ledger::received(Purpose purpose, std::uint64_t payload, std::uint64_t framing) {
  const Traffic message{.payload_received = payload, .framing_received = framing, .messages_received = 1};
  totals_[static_cast<std::size_t>(purpose)] += message;
  if (purpose == Purpose::exchange) open_ += message;
}

void Ledger::drop() {
  Traffic& exchange = totals_[static_cast<std::size_t>(Purpose::exchange)];
  exchange = exchange - open_;
  dropped_ += std::exchange(open_, {});
}

Ledger& Ledger::operator+=(const Ledger& other) {
  for (std::size_t i = 0; i < totals_.size(); ++i) totals_[i] += other.totals_[i];
  dropped_ += other.dropped_;
  return *this;
}

Ledger Ledger::since(const Ledger& earlier) const {
  Ledger later;
  for (std::size_t i = 0; i < totals_.size(); ++i) later.totals_[i] = totals_[i] - earlier.totals_[i];
  later.dropped_ = dropped_ - earlier.dropped_;
  return later;
}

void Ledger::visit(StateVisitor& visitor) {
  std::vector<std::uint64_t*> counts;
  const auto show = [&](Traffic& part) {
    for (std::uint64_t* count : {&part.payload_sent, &part.payload_received, &part.framing_sent, &part.framing_received,
                                 &part.messages_sent, &part.messages_received})
      counts.push_back(count);
  };
  for (Traffic& part : totals_) show(part);
  show(dropped_);
  std::vector<double> numbers;  // exact up to 2^53 bytes
  for (const std::uint64_t* count : counts) numbers.push_back(static_cast<double>(*count));
  visitor.span("ledger", NumberSpan(numbers.data(), numbers.size(), DType::fp64));
  for (std::size_t i = 0; i < counts.size(); ++i) *counts[i] = static_cast<std::uint64_t>(numbers[i]);
}

Traffic Ledger::total() const {
  Traffic sum = dropped_;
  for (const Traffic& part : totals_) sum += part;
  return sum;
}

}  // namespace ripieno::observe
