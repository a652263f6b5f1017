#include "ripieno/rendezvous/address.h"

#include <asio/io_context.hpp>
#include <asio/ip/udp.hpp>
#include <charconv>

#include "ripieno/core/error.h"
#include "ripieno/rendezvous/sockets.h"

namespace ripieno::rendezvous {

using asio::ip::tcp;

Address parse_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  Address parsed;
  bool good = colon != std::string::npos && colon > 0;
  if (good) {
    const char *first = address.data() + colon + 1, *last = address.data() + address.size();
    const auto [end, error] = std::from_chars(first, last, parsed.port);
    parsed.host = address.substr(0, colon);
    const bool brackets = parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']';
    if (brackets) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    good = error == std::errc() && end == last && (brackets || parsed.host.find(':') == std::string::npos);
  }
  if (!good) {
    fail(ErrorKind::usage, "'", address,
         "' is not an address: write host:port, with a port of 0 to 65535, for example ", "127.0.0.1:0");
  }
  return parsed;
}

std::string to_string(const tcp::endpoint& endpoint) { return text(endpoint); }

std::string with_port(const std::string& host, int port) {
  const bool is_six = host.find(':') != std::string::npos;
  return text(is_six ? "[" : "", host, is_six ? "]:" : ":", port);
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

tcp::endpoint resolve(const std::string& address) {
  const Address parsed = parse_address(address);
  asio::error_code error;
  const asio::ip::address number = asio::ip::make_address(parsed.host, error);
  if (!error) return {number, parsed.port};
  asio::io_context context;
  tcp::resolver resolver(context);
  const tcp::resolver::results_type found = resolver.resolve(parsed.host, std::to_string(parsed.port), error);
  if (error || found.empty()) fail(ErrorKind::network, "the host of ", address, " cannot be found: ", error.message());
  return found.begin()->endpoint();
}

void check_route_to(const std::string& address) {
  const tcp::endpoint where = resolve(address);
  asio::io_context context;
  asio::ip::udp::socket probe(context);
  asio::error_code error;
  const asio::ip::udp::endpoint there(where.address(), where.port());
  open_socket(probe, there.protocol(), error);
  if (!error) probe.connect(there, error);
  if (!error) return;
  fail(ErrorKind::network, "workers cannot meet at ", address, ": ", error.message(), ". ",
       where.address().is_loopback() ? "Is the loopback interface up? (ip link set lo up)" : "Is the network up?");
}

}  // namespace ripieno::rendezvous
