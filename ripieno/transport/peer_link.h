// What every way to one peer has in common, whatever carries the bytes: receives that wait and messages that nobody has
// asked for yet, paired in order on each channel; the peer's credit; how a scope ends, and how the way itself; and the
// watchdog.
//
// A scope that ends (aborts.h) leaves nothing behind: its receives and sends fail, and neither their memory nor that of
// what nobody has asked for is touched again; what still comes in it is read and dropped, without credit and in no
// order.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "ripieno/core/async.h"
#include "ripieno/core/memory.h"
#include "ripieno/transport/frame.h"
#include "ripieno/transport/link_options.h"
#include "ripieno/transport/sink.h"

namespace ripieno::transport {

/// Held by its coroutines, so that it outlives the endpoint that ends it. All on the runtime's thread.
class PeerLink : public std::enable_shared_from_this<PeerLink> {
 public:
  PeerLink(Runtime& runtime, int rank, int peer, LinkOptions options, std::shared_ptr<Aborts> aborts)
      : runtime_(runtime), rank_(rank), peer_(peer), options_(options), aborts_(std::move(aborts)) {}
  virtual ~PeerLink() = default;

  virtual Task<> send(Message message, ConstBytes payload) = 0;
  Task<> receive(Message message, Sink sink) { return receive(shared_from_this(), message, sink); }
  /// Ends the connection: every operation, pending and to come, fails with `error`.
  void revoke(std::exception_ptr error);
  /// Ends a scope: every operation in it that is pending fails. Those to come look at the endpoint's aborts.
  void end(const Abort& abort);
  /// Tells the peer of it: the last that is sent in that scope.
  virtual void tell(const Abort& abort) = 0;
  /// See Endpoint::way().
  virtual std::string way() const = 0;
  /// Whether an operation of this rank waits for the peer.
  bool waits() const;
  /// The messages that receives wait for.
  std::vector<Message> posted() const;

 protected:
  /// A receive that waits for its message.
  struct Posted {
    Posted(Runtime& runtime, Message message, Sink sink)
        : message(message), sink(sink), since(runtime.now()), done(runtime) {}
    Message message;
    Sink sink;
    Duration since;
    bool filled = false;  ///< nothing to wait for any more
    Event done;
  };
  /// A message that nobody has asked for yet: kept here, or lying in memory of the sender, who waits for its ticket.
  struct Arrived {
    Frame frame;
    Scratch payload;
    const std::byte* lies = nullptr;
    std::uint64_t ticket = 0;

    /// What it costs of the credit: with its bookkeeping, so that empty messages are not for nothing.
    std::uint64_t cost() const { return (lies ? 0 : frame.payload) + sizeof(Arrived); }
  };
  /// One channel.
  struct Lane {
    std::uint32_t next_sent = 0, next_received = 0;
    std::deque<std::shared_ptr<Posted>> posted;
    std::deque<Arrived> arrived;
  };

  /// A receive has been posted, or credit has come free.
  virtual void asked() = 0;
  /// Closes what carries the bytes; failure() is known by then.
  virtual void hang_up() = 0;
  /// Of a scope that ends: fails the sends that wait, and lets go of the message that is arriving.
  virtual void drop(const Abort& abort) = 0;
  /// A message is dropped that nobody has asked for.
  virtual void forget(const Arrived&) {}
  /// Gives an arrived message to the receive that it is for.
  virtual void give(const Arrived& arrived, const Sink& sink);

  /// Error(mismatch): the frame is of another epoch.
  void check_epoch(const Frame& frame) const;
  /// The lane of a message that begins to arrive. Error(mismatch): another sequence than was due.
  Lane& admit(const Frame& frame);
  /// The first receive of the lane has its payload.
  static void serve(Lane& lane);

  bool ended() const { return error_ || !lost_.empty(); }
  /// Why the scope has ended; null where it goes on.
  std::exception_ptr aborted(Scope scope) const { return aborts_->error(scope); }
  void throw_if_aborted(Scope scope) const {
    if (auto error = aborted(scope)) std::rethrow_exception(error);
  }
  /// Ends the connection because of what happened to it; each operation's error says what it was doing.
  void lose(const std::string& why);
  std::exception_ptr failure(const char* doing, const Message& message) const;
  /// The error of an operation that the loss of the peer ended.
  std::exception_ptr loss(const std::string& why, const char* doing, const Message& message) const;
  /// Why the frame is not what was expected; null where it is.
  std::exception_ptr mismatch(const Frame& frame, const Message& expected, std::uint64_t payload) const;

  /// For the watchdog; end_send() takes what begin_send() returned.
  std::uint64_t begin_send(const Message& message);
  void end_send(std::uint64_t id) { sending_.erase(id); }

  Runtime& runtime_;
  const int rank_, peer_;
  const LinkOptions options_;
  const std::shared_ptr<Aborts> aborts_;
  std::map<Channel, Lane> lanes_;
  std::uint64_t unasked_ = 0;  ///< of the credit
  std::string lost_;
  std::exception_ptr error_;

 private:
  struct Sending {
    Message message;
    Duration since;
  };

  static Task<> receive(std::shared_ptr<PeerLink> link, Message message, Sink sink);
  void close();
  void watch();
  void expire();

  std::map<std::uint64_t, Sending> sending_;
  std::uint64_t next_send_ = 0;
  std::optional<Runtime::Timer> watchdog_;
};

}  // namespace ripieno::transport
