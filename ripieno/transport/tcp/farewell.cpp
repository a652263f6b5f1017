#include "ripieno/transport/tcp/farewell.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "ripieno/transport/endpoint.h"

namespace ripieno::transport {

std::shared_ptr<const Farewell> Farewell::say(Runtime& runtime, asio::ip::tcp::socket socket,
                                              std::vector<std::byte> bytes) {
  asio::error_code ignored;
  socket.cancel(ignored);
  const auto farewell = std::make_shared<Farewell>(std::move(socket), std::move(bytes));
  asio::co_spawn(runtime.context(), hear_out(&runtime, farewell), asio::detached);
  asio::co_spawn(runtime.context(), write(farewell), asio::detached);
  return farewell;
}

/// The peer closes its side once it has read all. Closed before that, with bytes of the peer's unread, the connection
/// would be reset, and what is on its way lost.
Task<> Farewell::write(std::shared_ptr<Farewell> farewell) {
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const asio::const_buffer all = asio::buffer(farewell->bytes_);
  co_await asio::async_write(farewell->socket_, all, token);
  if (!error) farewell->socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (error) farewell->close();
}

Task<> Farewell::hear_out(Runtime* runtime, std::shared_ptr<Farewell> farewell) {
  const Runtime::Timer timer = runtime->call_at(runtime->now() + telling_limit, [farewell] { farewell->close(); });
  std::vector<std::byte> scratch(16 << 10);
  asio::error_code error;
  while (!error) {
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const asio::mutable_buffer buffer = asio::buffer(scratch);
    co_await farewell->socket_.async_read_some(buffer, token);
  }
  runtime->cancel(timer);
  farewell->close();
}

void Farewell::close() {
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  is_over_ = true;
}

}  // namespace ripieno::transport
