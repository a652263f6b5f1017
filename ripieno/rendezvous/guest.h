// The guest's side of a greeting (greeting.h): connects to a door (door.h), hears its challenge, greets, and is
// answered. A door may put out a guest that it has not heard yet, where strangers crowd it: the guest comes again.
#pragma once

#include <asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "ripieno/core/runtime.h"
#include "ripieno/rendezvous/door.h"

namespace ripieno::rendezvous {

inline constexpr auto between_attempts = std::chrono::milliseconds(100);

/// Of an attempt to connect. A host that is up answers at once, with a connection or a refusal; lost packets are sent
/// again after 1 s and 3 s. Of several addresses, one that nobody answers at does not keep this guest from the others.
Duration longest_attempt(std::size_t addresses);

/// Connects to `where` within `longest`. Returns the error, if any.
Task<asio::error_code> dial(Runtime& runtime, Connection connection, asio::ip::tcp::endpoint where, Duration longest);

/// Why nobody was reached at `where`, and how this host tried.
std::string why_not(const asio::ip::tcp::endpoint& where, const asio::error_code& error);

/// Errors of networks between hosts, in place of a refusal: whoever shall answer may not be there yet.
bool is_of_the_network(const asio::error_code& error);

/// What a door has answered.
struct Answer {
  asio::error_code error;  ///< set: the connection broke before the answer was whole
  bool is_ours = true;     ///< who answers is a door of this version and knows the token
  bool is_known = true;    ///< whoever answers has not said that the greeting proves another token
  std::uint32_t status = 0;
  std::string content;
};

/// Greets the door at the other end, whose answer has `most` bytes of content, or fewer of an error. A door that says
/// no challenge within 5 s has lost the connection: `error` is timed_out.
Task<Answer> ask(Runtime& runtime, Connection connection, Token token, Greeting greeting, std::size_t most);

}  // namespace ripieno::rendezvous
