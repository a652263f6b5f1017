// A listening socket that admits only connections that know the job's token: a peer has 5 s to send a greeting, and is
// closed without an answer if it sends no greeting or another token. Strangers neither end nor disturb the job: the
// number of undecided connections is bounded, and their bytes are read into a fixed-size buffer.
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <set>

#include "ripieno/core/runtime.h"
#include "ripieno/membership/greeting.h"

namespace ripieno::membership {

using Connection = std::shared_ptr<asio::ip::tcp::socket>;

class Door : public std::enable_shared_from_this<Door> {
 public:
  using Guest = std::function<void(Connection, const Greeting&)>;

  /// Listens on `where` (port 0: one that the kernel picks). Error(network), with address and reason.
  Door(Runtime& runtime, asio::ip::tcp::endpoint where, const Token& token);
  ~Door();

  asio::ip::tcp::endpoint endpoint() const { return endpoint_; }
  /// Begins to admit connections: calls `guest` with each that knows the token, until close().
  void open(Guest guest);
  /// Stops listening and closes all undecided connections.
  void close();

 private:
  static Task<> accept(std::shared_ptr<Door> door);
  static Task<> greet(std::shared_ptr<Door> door, Connection connection);

  Runtime& runtime_;
  const Token token_;
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::endpoint endpoint_;
  Guest guest_;
  std::set<Connection> undecided_;
};

/// Closes the socket, whatever state it is in.
void hang_up(asio::ip::tcp::socket& socket);

}  // namespace ripieno::membership
