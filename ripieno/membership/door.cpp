#include "ripieno/membership/door.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>

#include "ripieno/core/error.h"
#include "ripieno/membership/address.h"

namespace ripieno::membership {
namespace {

using asio::ip::tcp;

constexpr std::size_t most_undecided = 128;
constexpr auto patience = std::chrono::seconds(5);
constexpr auto pause = std::chrono::milliseconds(50);

}  // namespace

void hang_up(tcp::socket& socket) {
  asio::error_code ignored;
  socket.close(ignored);
}

Door::Door(Runtime& runtime, tcp::endpoint where) : runtime_(runtime), acceptor_(runtime.context()) {
  asio::error_code error;
  acceptor_.open(where.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  const bool is_all = where.protocol() == tcp::v6() && where.address().is_unspecified();
  if (!error && is_all) acceptor_.set_option(asio::ip::v6_only(false), error);  // IPv4 too
  if (!error) acceptor_.bind(where, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (!error) endpoint_ = acceptor_.local_endpoint(error);
  if (error) {
    fail(ErrorKind::network, "cannot listen on ", to_string(where), ": ", error.message(),
         ". Choose another address, or port 0 for any that is free");
  }
}

Door::~Door() { close(); }

void Door::open(const Token& token, Guest guest) {
  token_ = token;
  guest_ = std::move(guest);
  asio::co_spawn(runtime_.context(), accept(shared_from_this()), asio::detached);
}

void Door::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  for (const Connection& connection : undecided_) hang_up(*connection);
  undecided_.clear();
  guest_ = nullptr;
}

Task<> Door::accept(std::shared_ptr<Door> door) {
  while (door->acceptor_.is_open()) {
    if (door->undecided_.size() >= most_undecided) {
      co_await door->runtime_.sleep(pause);
      continue;
    }
    Connection connection = std::make_shared<tcp::socket>(door->runtime_.context());
    asio::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await door->acceptor_.async_accept(*connection, token);
    if (!door->acceptor_.is_open()) co_return;
    if (error) {  // out of descriptors, or the peer left at once
      co_await door->runtime_.sleep(pause);
      continue;
    }
    door->undecided_.insert(connection);
    asio::co_spawn(door->runtime_.context(), greet(door, connection), asio::detached);
  }
}

Task<> Door::greet(std::shared_ptr<Door> door, Connection connection) {
  auto late = [door, connection] {
    if (door->undecided_.count(connection)) hang_up(*connection);
  };
  const Runtime::Timer timer = door->runtime_.call_at(door->runtime_.now() + patience, late);
  Challenge challenge;
  challenge.nonce = random_nonce();
  Greeting greeting;
  const asio::const_buffer out(&challenge, sizeof challenge);
  const asio::mutable_buffer in(&greeting, sizeof greeting);
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_write(*connection, out, token);
  if (!error) co_await asio::async_read(*connection, in, token);
  door->runtime_.cancel(timer);
  door->undecided_.erase(connection);
  const bool known = !error && greeting.proves(door->token_, challenge);
  const Guest guest = door->guest_;  // a copy: the call may close the door
  if (known && guest && connection->is_open()) {
    guest(connection, greeting, {challenge.nonce, greeting.nonce});
  } else {
    hang_up(*connection);
  }
}

}  // namespace ripieno::membership
