// Who has come to a listening socket without belonging to the job, for errors: where ranks are missing, strangers may
// have kept them away, and neither a rank nor its token is to blame.
#pragma once

#include <asio/ip/address.hpp>
#include <map>
#include <string>

#include "ripieno/core/span.h"

namespace ripieno::rendezvous {

/// What a stranger's first bytes are: "silent", "HTTP", "TLS", "SSH", "another version of Ripieno", "part of a
/// greeting", or the bytes themselves. `said`: what was read of a greeting.
std::string what_was_said(ConstBytes said);

/// Counts strangers by address and by what they said. Its memory is bounded, however many come.
class Strangers {
 public:
  void add(const asio::ip::address& from, const std::string& said);
  /// "" or, to be appended to an error: "; 600 connections were closed that no rank had made: 127.0.0.1 (598 silent,
  /// 2 HTTP): keep them away".
  std::string remark() const;

 private:
  using Counts = std::map<std::string, std::size_t>;
  std::map<std::string, Counts> by_address_;
};

}  // namespace ripieno::rendezvous
