#include "ripieno/rendezvous/sockets.h"

#include <unistd.h>

#include <asio/redirect_error.hpp>

namespace ripieno::rendezvous {

Task<asio::error_code> accept_socket(asio::ip::tcp::acceptor* acceptor, asio::ip::tcp::socket* socket,
                                     asio::ip::tcp::endpoint* from) {
  asio::error_code error;
  const asio::ip::tcp::endpoint here = acceptor->local_endpoint(error);
  while (!error) {
    auto length = static_cast<socklen_t>(from->capacity());
    const int fd = ::accept4(acceptor->native_handle(), from->data(), &length, SOCK_CLOEXEC);
    if (fd >= 0) {
      from->resize(length);
      socket->assign(here.protocol(), fd, error);
      if (error) ::close(fd);
      co_return error;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) co_return asio::error_code(errno, asio::system_category());
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await acceptor->async_wait(asio::ip::tcp::acceptor::wait_read, token);
    if (!error && !acceptor->is_open()) error = asio::error::operation_aborted;
  }
  co_return error;
}

}  // namespace ripieno::rendezvous
