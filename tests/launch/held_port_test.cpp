#include "ripieno/launch/held_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace ripieno::launch {
namespace {

/// errno of binding to the port on all addresses, and listening there; 0: it worked.
template <class Address>
int listen_on(Address address, const Descriptor& socket, bool allows_others) {
  const int yes = allows_others;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return errno;
  return ::listen(socket.get(), 5) == 0 ? 0 : errno;
}

Descriptor new_socket(int family) { return Descriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

/// The job's store listens with SO_REUSEADDR, as PyTorch's does.
template <class Address>
void expect_free_for_the_job_alone(const Address& address, int family) {
  const Descriptor mine = new_socket(family), stranger = new_socket(family);
  ASSERT_TRUE(mine.is_open() && stranger.is_open());
  EXPECT_EQ(listen_on(address, stranger, false), EADDRINUSE);
  EXPECT_EQ(listen_on(address, mine, true), 0);
}

TEST(HeldPort, IsFreeForTheJobAlone) {
  const HeldPort first, second;
  EXPECT_NE(first.number(), second.number());
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(static_cast<in_port_t>(first.number()));
  expect_free_for_the_job_alone(four, AF_INET);
  if (!new_socket(AF_INET6).is_open()) return;  // a host without IPv6 has shown all that it has
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<in_port_t>(second.number()));
  expect_free_for_the_job_alone(six, AF_INET6);
}

}  // namespace
}  // namespace ripieno::launch
