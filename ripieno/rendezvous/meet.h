// The workers' side of the rendezvous (rendezvous.h): each worker connects to it, is told where the others listen, and
// connects to every lower rank.
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/core/runtime.h"
#include "ripieno/rendezvous/invitation.h"

namespace ripieno::rendezvous {

struct Meeting {
  std::string address;                                ///< host:port of the rendezvous
  std::string token;                                  ///< of the job
  std::shared_ptr<const InvitationPlace> invitation;  ///< says both, when it is there; null: they are given
  int rank = 0, world_size = 1;
  std::uint64_t digest = 0;  ///< of everything that the workers must agree on: the recipe
  Duration timeout = std::chrono::seconds(60);
  std::string listen = "127.0.0.1";  ///< the host that this worker listens on
  /// Called once, when the rendezvous cannot be reached for 10 s, with the reason; it may still come. May be empty.
  std::function<void(const std::string& why)> on_wait;
};

/// Connects to all other ranks: [r] is the connection to rank r, [rank] is empty. A connection to this worker without
/// the token is closed and has no effect.
/// Error(network): the rendezvous cannot be reached or does not answer, or this worker cannot listen.
/// Error(mismatch): this or another worker does not fit the job. Error(peer): some ranks, which it names, have not
/// come. Errors of InvitationPlace::find().
Task<std::vector<std::optional<asio::ip::tcp::socket>>> meet(Runtime& runtime, Meeting meeting);

}  // namespace ripieno::rendezvous
