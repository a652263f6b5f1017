// The byte ledger: the bytes that one rank sent and received, by purpose, payload and framing separately. Only the
// counted endpoint (transport/counted.h) fills it. Bytes of dropped attempts at a step are counted separately from
// committed ones.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "ripieno/core/state.h"

namespace ripieno::observe {

/// What bytes are sent for.
enum class Purpose : std::uint8_t { setup, exchange, evaluate, control };
inline constexpr std::array purposes{Purpose::setup, Purpose::exchange, Purpose::evaluate, Purpose::control};
/// "setup", ...
const char* name(Purpose purpose);

/// Bytes and messages. Framing is what the transport adds to a payload: its own message header, not TCP's and IP's.
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
  /// Counts a message.
  void sent(Purpose purpose, std::uint64_t payload, std::uint64_t framing);
  void received(Purpose purpose, std::uint64_t payload, std::uint64_t framing);

  /// Exchange traffic since the last commit() or drop() belongs to a step that is committed now.
  void commit() { open_ = {}; }
  /// That traffic belongs to an attempt that is dropped: it counts as dropped(), not as the exchange's.
  void drop();

  /// One purpose's traffic, without dropped attempts.
  const Traffic& total(Purpose purpose) const { return totals_[static_cast<std::size_t>(purpose)]; }
  /// Adds another ledger's totals and dropped attempts; the open attempt stays this one's.
  Ledger& operator+=(const Ledger& other);
  /// What has come since an earlier copy.
  Ledger since(const Ledger& earlier) const;
  /// All traffic, over all purposes, with dropped attempts.
  Traffic total() const;
  /// The exchange traffic of dropped attempts.
  const Traffic& dropped() const { return dropped_; }

  /// Shows all counts but the open attempt's, for a run's checkpoint.
  void visit(StateVisitor& visitor);

 private:
  std::array<Traffic, purposes.size()> totals_;
  Traffic open_, dropped_;
};

}  // namespace ripieno::observe
