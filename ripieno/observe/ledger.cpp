#include "ripieno/observe/ledger.h"

namespace ripieno {

const char* name(Purpose purpose) {
  switch (purpose) {
    case Purpose::setup: return "setup";
    case Purpose::exchange: return "exchange";
    case Purpose::evaluate: return "evaluate";
    case Purpose::control: return "control";
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
  Traffic& total = totals_[static_cast<std::size_t>(purpose)];
  total.payload_sent += payload;
  total.framing_sent += framing;
  ++total.messages_sent;
}

void Ledger::received(Purpose purpose, std::uint64_t payload, std::uint64_t framing) {
  Traffic& total = totals_[static_cast<std::size_t>(purpose)];
  total.payload_received += payload;
  total.framing_received += framing;
  ++total.messages_received;
}

Traffic Ledger::total() const {
  Traffic sum;
  for (const Traffic& part : totals_) sum += part;
  return sum;
}

}  // namespace ripieno
