// A listening socket that admits only connections that know the job's token: a peer gets a challenge and must greet
// (greeting.h). Strangers neither end, disturb nor delay the job:
// - At most 128 connections are undecided at once, half of them from one address, and fewer where few descriptors are
//   allowed. One more puts out one of the older half of the address that has most, by chance: so under a flood that
//   puts out all within a round trip a rank, which comes again when it is put out (guest.h), soon gets in.
// - An undecided connection is put out after 5 s, or after 1 s if there are others.
// - Whoever says what no greeting begins with is put out at once, and so is, with the word `unproven`, whoever proves
//   no knowledge of the token.
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <map>
#include <memory>

#include "ripieno/core/runtime.h"
#include "ripieno/rendezvous/greeting.h"
#include "ripieno/rendezvous/strangers.h"

namespace ripieno::rendezvous {

using Connection = std::shared_ptr<asio::ip::tcp::socket>;

class Door : public std::enable_shared_from_this<Door> {
 public:
  /// A connection that knows the token, and what it has said. Whoever answers proves its own knowledge (answer()).
  using Guest = std::function<void(Connection, const Greeting&, const Conversation&)>;

  /// Listens on `where` (port 0: one that the kernel picks). Error(network), with address and reason.
  Door(Runtime& runtime, asio::ip::tcp::endpoint where);
  ~Door();

  asio::ip::tcp::endpoint endpoint() const { return endpoint_; }
  /// Begins to admit connections: calls `guest` with each that knows the token, until close(). May be called again,
  /// with another token.
  void open(const Token& token, Guest guest);
  /// Stops listening and closes all undecided connections.
  void close();

  /// For the error of a rank that has not come: "" or, to be appended, which strangers came, and why connections could
  /// not be accepted.
  std::string remark() const;

 private:
  struct Undecided {
    Connection connection;
    asio::ip::address from;
    Duration since;
  };
  using ByArrival = std::map<std::uint64_t, Undecided>;

  static Task<> accept(std::shared_ptr<Door> door);
  static Task<> greet(std::shared_ptr<Door> door, std::uint64_t number, Undecided one);
  void put_out(ByArrival::iterator one);
  void put_out_late();
  void keep_bounds();
  ByArrival::iterator any_old_one_from(const asio::ip::address& address, std::size_t count);

  Runtime& runtime_;
  Token token_{};
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::endpoint endpoint_;
  Guest guest_;
  bool accepts_ = false;
  const std::size_t most_undecided_;
  ByArrival undecided_;
  Random random_;
  std::uint64_t arrivals_ = 0;
  Strangers strangers_;
  asio::error_code last_refusal_;  ///< why the kernel gave no connection
};

/// Closes the socket, whatever state it is in.
void hang_up(asio::ip::tcp::socket& socket);

}  // namespace ripieno::rendezvous
