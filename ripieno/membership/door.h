// A listening socket that lets in only those who know the job's token: whoever connects has 5 s to send a greeting, and
// is put out without a word where it is none or has another token. Strangers neither end nor disturb the job: there is
// room for so many of them at once that are undecided, and what they send is read into a fixed-size buffer.
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

  /// Listens on `where` (port 0: one that the kernel picks). Error(network) naming address and reason.
  Door(Runtime& runtime, asio::ip::tcp::endpoint where, const Token& token);
  ~Door();

  asio::ip::tcp::endpoint endpoint() const { return endpoint_; }
  /// Lets in. `guest` is called for each who is known, until close().
  void open(Guest guest);
  /// Stops listening and puts out everybody who is undecided.
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
