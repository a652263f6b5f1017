#include "ripieno/rendezvous/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <asio/ip/host_name.hpp>
#include <asio/ip/udp.hpp>
#include <asio/ip/v6_only.hpp>

#include "ripieno/core/error.h"
#include "ripieno/rendezvous/sockets.h"

namespace ripieno::rendezvous {
namespace {

using asio::ip::tcp;

/// All that are up and have an address.
std::vector<Interface> all_interfaces() {
  std::vector<Interface> all;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return all;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = first; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != family || !(one->ifa_flags & IFF_UP)) continue;
      char number[NI_MAXHOST];
      const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (getnameinfo(one->ifa_addr, length, number, sizeof number, nullptr, 0, NI_NUMERICHOST) == 0)
        all.push_back({one->ifa_name, number});
    }
  }
  freeifaddrs(first);
  return all;
}

bool is_of_a_link(const asio::ip::address& address) { return address.is_v6() && address.to_v6().is_link_local(); }

}  // namespace

std::vector<Interface> interfaces_of_host() {
  std::vector<Interface> all = all_interfaces();
  std::erase_if(all, [](const Interface& one) {
    const asio::ip::address address = asio::ip::make_address(one.address);
    return address.is_loopback() || is_of_a_link(address);
  });
  return all;
}

std::optional<std::string> find_interface(const std::string& name) {
  for (const Interface& one : all_interfaces()) {
    if (one.name == name && !is_of_a_link(asio::ip::make_address(one.address))) return one.address;
  }
  return std::nullopt;
}

std::string address_of_interface(const std::string& name) {
  if (const auto found = find_interface(name)) return *found;
  std::string there;
  for (const Interface& one : all_interfaces()) {
    if (!is_of_a_link(asio::ip::make_address(one.address)))
      there += text(there.empty() ? "" : ", ", one.name, " (", one.address, ")");
  }
  fail(ErrorKind::usage, asio::ip::host_name(), " has no interface ", name, " with an address; it has ",
       there.empty() ? "none" : there);
}

bool is_of_this_host(const asio::ip::address& address) {
  const std::vector<Interface> all = all_interfaces();
  return address.is_loopback() || std::any_of(all.begin(), all.end(), [&](const Interface& one) {
           return asio::ip::make_address(one.address) == address;
         });
}

std::string all_addresses() {
  asio::io_context context;
  tcp::acceptor probe(context);
  asio::error_code error;
  open_socket(probe, tcp::v6(), error);
  if (!error) probe.set_option(asio::ip::v6_only(false), error);
  if (!error) probe.bind({tcp::v6(), 0}, error);
  return error ? "0.0.0.0" : "::";
}

std::string way_to(const tcp::endpoint& where) {
  asio::io_context context;
  asio::ip::udp::socket probe(context);
  asio::error_code error;
  const asio::ip::udp::endpoint there(where.address(), where.port());
  open_socket(probe, there.protocol(), error);
  if (!error) probe.connect(there, error);
  if (error) return "there is no way: " + error.message();
  const std::string from = probe.local_endpoint(error).address().to_string();
  for (const Interface& one : all_interfaces()) {
    if (one.address == from) return text("from ", from, " by ", one.name);
  }
  return "from " + from;
}

}  // namespace ripieno::rendezvous
