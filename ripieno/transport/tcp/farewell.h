// The last bytes on a connection whose link has given up: the rest of a begun message, and why.
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>
#include <vector>

#include "ripieno/core/runtime.h"

namespace ripieno::transport {

class Farewell {
 public:
  /// Writes the bytes, and closes the connection once the peer has closed its side, or after telling_limit. What the
  /// peer still sends is discarded. Operations that wait on the socket are cancelled.
  static std::shared_ptr<const Farewell> say(Runtime& runtime, asio::ip::tcp::socket socket,
                                             std::vector<std::byte> bytes);

  Farewell(asio::ip::tcp::socket socket, std::vector<std::byte> bytes)
      : socket_(std::move(socket)), bytes_(std::move(bytes)) {}
  /// Whether the connection is closed.
  bool is_over() const { return is_over_; }

 private:
  static Task<> write(std::shared_ptr<Farewell> farewell);
  static Task<> hear_out(Runtime* runtime, std::shared_ptr<Farewell> farewell);
  void close();

  asio::ip::tcp::socket socket_;
  const std::vector<std::byte> bytes_;
  bool is_over_ = false;
};

}  // namespace ripieno::transport
