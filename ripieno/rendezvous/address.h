// Addresses, written "host:port" in options, recipes and messages.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

namespace ripieno::rendezvous {

struct Address {
  std::string host;  ///< a name or a number, IPv6 without its brackets
  std::uint16_t port = 0;
};

/// "127.0.0.1:8000", "node7:8000", "[::1]:8000". Error(usage): it is not an address.
Address parse_address(const std::string& address);

/// "127.0.0.1:8000", "[::1]:8000"
std::string to_string(const asio::ip::tcp::endpoint& endpoint);
std::string with_port(const std::string& host, int port);

/// Whether it is one of a host's own addresses for itself, as it is written: "localhost", "127.0.0.1", "::1".
bool is_loopback(const std::string& host);

/// The first endpoint that the name resolves to; may wait for a name server. Error(network), with the name and the
/// reason.
asio::ip::tcp::endpoint resolve(const std::string& address);

/// Error(network) if this machine has no route to the (numeric) address, e.g. because the loopback interface is down.
/// Sends nothing.
void check_route_to(const std::string& address);

}  // namespace ripieno::rendezvous
