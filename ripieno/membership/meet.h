// The workers' side of how they find each other: each goes to the rendezvous (rendezvous.h), is told where the others
// listen, and connects to every rank below its own.
#pragma once

#include <asio/ip/tcp.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/core/runtime.h"

namespace ripieno::membership {

struct Meeting {
  std::string address;  ///< host:port of the rendezvous
  std::string token;    ///< of the job
  int rank = 0, world_size = 1;
  std::uint64_t digest = 0;  ///< of all that the workers must agree on: the recipe
  Duration timeout = std::chrono::seconds(60);
  std::string listen = "127.0.0.1";  ///< the host that this worker listens on
};

/// Connects to all other ranks: [r] is the connection to rank r, [rank] is empty. What connects to this worker without
/// knowing the token is put out and changes nothing.
/// Error(network): the rendezvous cannot be reached or does not answer, or nothing can be listened on.
/// Error(mismatch): this or another worker does not fit the job. Error(peer): ranks that have not come, by name.
Task<std::vector<std::optional<asio::ip::tcp::socket>>> meet(Runtime& runtime, Meeting meeting);

}  // namespace ripieno::membership
