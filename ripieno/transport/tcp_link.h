// One TCP connection to one peer: sends in turn, and one coroutine (the pump) that reads whatever comes and hands it to
// the receive that waits for it, or keeps it within the peer's credit.
#pragma once

#include <deque>
#include <map>

#include "ripieno/core/async.h"
#include "ripieno/transport/tcp.h"
#include "ripieno/transport/tcp_frame.h"

namespace ripieno {

/// Where a payload goes: bytes as they are, or numbers that are added or converted. Null data is counted, not moved.
class Sink {
 public:
  explicit Sink(Bytes into) : straight_(into) {}
  Sink(FloatSpan into, DType wire, Reduce how);

  /// Bytes on the wire.
  std::uint64_t payload() const;
  /// The bytes that the payload may be read to as it is; nothing where each part has to go through take().
  std::optional<Bytes> straight() const;
  /// Takes the payload's bytes from `offset` on; a whole number of elements.
  void take(std::uint64_t offset, Bytes part) const;

 private:
  Bytes straight_;
  FloatSpan into_;
  DType wire_ = DType::fp32;
  Reduce how_ = Reduce::replace;
  bool convert_ = false;  ///< into_, not straight_
};

/// Held by its coroutines, so that it outlives the endpoint that ends it. All on the runtime's thread.
class TcpLink : public std::enable_shared_from_this<TcpLink> {
 public:
  TcpLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, TcpOptions options);

  void start();
  static Task<> send(std::shared_ptr<TcpLink> link, Message message, ConstBytes payload);
  static Task<> receive(std::shared_ptr<TcpLink> link, Message message, Sink sink);
  /// Closes the connection: every operation, pending and to come, fails with `error`.
  void revoke(std::exception_ptr error);

 private:
  /// A receive that waits for its message.
  struct Posted {
    Posted(Runtime& runtime, Message message, Sink sink)
        : message(message), sink(sink), since(runtime.now()), done(runtime) {}
    Message message;
    Sink sink;
    Duration since;
    Event done;
  };
  /// A message that nobody has asked for yet.
  struct Arrived {
    Frame frame;
    std::unique_ptr<std::byte[]> payload;
  };
  /// One channel.
  struct Lane {
    std::uint64_t next_sent = 0, next_received = 0;
    std::deque<std::shared_ptr<Posted>> posted;
    std::deque<Arrived> arrived;
  };
  struct Sending {
    Message message;
    Duration since;
  };

  static Task<> pump(std::shared_ptr<TcpLink> link);
  Task<bool> pump_one();
  Task<bool> read(asio::mutable_buffer into);
  Task<bool> fill(Frame frame, std::shared_ptr<Posted> posted);
  Task<bool> keep(Frame frame, Lane* lane);
  Task<> changed();
  void wake();

  bool ended() const { return error_ || !lost_.empty(); }
  /// Ends the connection because of what happened to it; each operation's error says what it was doing.
  void lose(const std::string& why);
  void close();
  std::exception_ptr failure(const char* doing, const Message& message) const;
  /// Why the frame is not what was expected; null where it is.
  std::exception_ptr mismatch(const Frame& frame, const Message& expected, std::uint64_t payload) const;
  static std::uint64_t cost(const Frame& frame);

  void watch();
  void expire();

  Runtime& runtime_;
  const int rank_, peer_;
  const TcpOptions options_;
  asio::ip::tcp::socket socket_;
  Mutex writing_;
  std::map<Channel, Lane> lanes_;
  std::uint64_t unasked_ = 0;
  Resume paused_;  ///< continues the pump
  std::unique_ptr<std::byte[]> scratch_;

  std::string lost_;
  std::exception_ptr error_;

  std::map<std::uint64_t, Sending> sending_;
  std::uint64_t next_send_ = 0;
  std::optional<Runtime::Timer> watchdog_;
};

}  // namespace ripieno
