// What a process knows of its job when it joins the others through a transport (transports.h).
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <optional>
#include <vector>

#include "ripieno/transport/link_options.h"

namespace ripieno::transport {

/// A rank's connections: [r] leads to rank r and was made on its runtime's context; its own is empty.
using PeerSockets = std::vector<std::optional<asio::ip::tcp::socket>>;

struct Joining {
  Runtime& runtime;  ///< of real time
  int rank = 0;
  int size = 1;
  /// Meets the others at the rendezvous, where their recipes are compared, and returns an authenticated TCP connection
  /// to each: for transports that begin with these. Called once at most. Errors: meet()'s (membership/meet.h).
  std::function<Task<PeerSockets>()> connect;
  LinkOptions link;
  Duration agreement = std::chrono::minutes(30);  ///< for all answers of peers before the first message
  bool shares_memory = true;  ///< workers of one host may share memory; the same on all ranks (RIPIENO_SHARED_MEMORY)
};

}  // namespace ripieno::transport
