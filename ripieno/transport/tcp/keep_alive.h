// Connections to hosts that fall silent.
#pragma once

#include <netinet/tcp.h>

#include <asio/detail/socket_option.hpp>
#include <asio/ip/tcp.hpp>

namespace ripieno::transport {

/// Ends a connection whose peer's host answers nothing for a minute (it has no power, or the network between is gone):
/// neither probes of a silent connection nor what was sent.
inline void end_with_its_host(asio::ip::tcp::socket& socket, asio::error_code& error) {
  using Idle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
  using Interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
  using Probes = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
  using Unanswered = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;
  socket.set_option(asio::socket_base::keep_alive(true), error);
  if (!error) socket.set_option(Idle(20), error);
  if (!error) socket.set_option(Interval(5), error);
  if (!error) socket.set_option(Probes(8), error);
  if (!error) socket.set_option(Unanswered(60'000), error);
}

}  // namespace ripieno::transport
