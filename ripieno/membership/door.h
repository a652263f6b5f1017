// A listening socket that admits only connections that know the job's token: a peer gets a challenge and has 5 s to
// greet (greeting.h). It is closed without an answer if it does not, or proves no knowledge of the token. Strangers
// neither end nor disturb the job: the number of undecided connections is bounded, and their bytes are read into a
// fixed-size buffer.
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
  /// A connection that knows the token, and what it has said. Whoever answers proves its own knowledge (answer()).
  using Guest = std::function<void(Connection, const Greeting&, const Conversation&)>;

  /// Listens on `where` (port 0: one that the kernel picks). Error(network), with address and reason.
  Door(Runtime& runtime, asio::ip::tcp::endpoint where);
  ~Door();

  asio::ip::tcp::endpoint endpoint() const { return endpoint_; }
  /// Begins to admit connections: calls `guest` with each that knows the token, until close().
  void open(const Token& token, Guest guest);
  /// Stops listening and closes all undecided connections.
  void close();

 private:
  static Task<> accept(std::shared_ptr<Door> door);
  static Task<> greet(std::shared_ptr<Door> door, Connection connection);

  Runtime& runtime_;
  Token token_{};
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::endpoint endpoint_;
  Guest guest_;
  std::set<Connection> undecided_;
};

/// Closes the socket, whatever state it is in.
void hang_up(asio::ip::tcp::socket& socket);

}  // namespace ripieno::membership
