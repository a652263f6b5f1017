// The byte ledger: what one rank sent and received, payload and framing apart, per purpose. Filled at one seam, the counted
// endpoint (transport/counted.h).
#pragma once

#include <array>
#include <cstdint>

namespace ripieno {

/// What bytes are sent for.
enum class Purpose : std::uint8_t { setup, exchange, evaluate, control };
inline constexpr std::array purposes{Purpose::setup, Purpose::exchange, Purpose::evaluate, Purpose::control};
/// "setup", ...
const char* name(Purpose purpose);

/// Bytes. Framing is what the transport adds to a payload (its own message header; not TCP's and IP's).
struct Traffic {
  std::uint64_t payload_sent = 0, payload_received = 0;
  std::uint64_t framing_sent = 0, framing_received = 0;
  std::uint64_t messages_sent = 0, messages_received = 0;

  Traffic& operator+=(const Traffic& other);
  Traffic operator-(const Traffic& earlier) const;
  bool operator==(const Traffic&) const = default;
};

class Ledger {
 public:
  /// A message.
  void sent(Purpose purpose, std::uint64_t payload, std::uint64_t framing);
  void received(Purpose purpose, std::uint64_t payload, std::uint64_t framing);

  const Traffic& total(Purpose purpose) const { return totals_[static_cast<std::size_t>(purpose)]; }
  /// Over all purposes.
  Traffic total() const;

 private:
  std::array<Traffic, purposes.size()> totals_;
};

}  // namespace ripieno
