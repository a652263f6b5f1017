// Sockets that no program inherits which this process, or a library in it, starts: a child would keep the connections
// of a rank that has died. Asio's own calls make sockets that are inherited.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <asio/ip/tcp.hpp>
#include <cerrno>

#include "ripieno/core/runtime.h"

namespace ripieno::rendezvous {

/// As socket.open(protocol, error).
template <class Socket>
void open_socket(Socket& socket, const typename Socket::protocol_type& protocol, asio::error_code& error) {
  const int fd = ::socket(protocol.family(), protocol.type() | SOCK_CLOEXEC, protocol.protocol());
  error = fd < 0 ? asio::error_code(errno, asio::system_category()) : asio::error_code();
  if (fd >= 0) socket.assign(protocol, fd, error);
  if (fd >= 0 && error) ::close(fd);
}

/// As acceptor.async_accept(socket, from), for an acceptor in non-blocking mode; returns what is wrong, if anything is.
/// All must outlive the call.
Task<asio::error_code> accept_socket(asio::ip::tcp::acceptor* acceptor, asio::ip::tcp::socket* socket,
                                     asio::ip::tcp::endpoint* from);

}  // namespace ripieno::rendezvous
