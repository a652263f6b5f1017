// This host's network interfaces, and by which of them it reaches others.
#pragma once

#include <asio/ip/tcp.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ripieno::rendezvous {

struct Interface {
  std::string name, address;  ///< "eth0", "10.0.0.7"
};

/// Those that are up, an entry an address, without the loopback's and addresses of one link alone: IPv4 first.
std::vector<Interface> interfaces_of_host();

/// The first address of the interface; nullopt: there is none of that name, or it has no address.
std::optional<std::string> find_interface(const std::string& name);

/// The same. Error(usage), which lists the host's interfaces: it has none of that name, or it has
/// no address.
std::string address_of_interface(const std::string& name);

/// Whether it leads back to this host.
bool is_of_this_host(const asio::ip::address& address);

/// What stands for all of this host's addresses: "::", which takes IPv4 too, or "0.0.0.0" where there is no IPv6.
std::string all_addresses();

/// How this host would send there: "from 10.0.0.7 by eth0", or "there is no way: REASON". Sends nothing.
std::string way_to(const asio::ip::tcp::endpoint& where);

}  // namespace ripieno::rendezvous
