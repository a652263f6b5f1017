#include "ripieno/launch/held_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "ripieno/core/error.h"

namespace ripieno::launch {
namespace {

/// On all addresses. Two sockets that allow it (SO_REUSEADDR) can be bound to one port, as long as one listens at most.
template <class Address>
int bind_any(const Descriptor& socket, Address address, in_port_t Address::*port) {
  const int yes = 1;
  socklen_t size = sizeof address;
  const bool is_bound = ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                        ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
  return is_bound ? ntohs(address.*port) : 0;
}

}  // namespace

HeldPort::HeldPort() : socket_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in6 both{};
  both.sin6_family = AF_INET6;
  if (socket_.is_open()) number_ = bind_any(socket_, both, &sockaddr_in6::sin6_port);
  if (number_ > 0) return;
  socket_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // a host without IPv6
  sockaddr_in four{};
  four.sin_family = AF_INET;
  if (socket_.is_open()) number_ = bind_any(socket_, four, &sockaddr_in::sin_port);
  if (number_ == 0) fail(ErrorKind::network, "cannot take a port for the workers to meet: ", std::strerror(errno));
}

}  // namespace ripieno::launch
