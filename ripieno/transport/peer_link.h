// The base of links to one peer, whatever carries the bytes. It pairs posted receives and unexpected messages (no
// receive is posted yet) in order on each channel, keeps the peer's credit and the watchdog, and ends scopes and the
// link itself.
//
// When a scope ends (aborts.h), its receives and sends fail, and neither their memory nor that of its unexpected
// messages is touched again. Messages that still arrive in it are read and dropped, without using credit and in any
// order.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>

#include "ripieno/core/async.h"
#include "ripieno/core/memory.h"
#include "ripieno/transport/frame.h"
#include "ripieno/transport/link_options.h"
#include "ripieno/transport/sink.h"

namespace ripieno::transport {

/// Its coroutines own it, so that it outlives the endpoint that ends it. Used on the runtime's thread alone.
class PeerLink : public std::enable_shared_from_this<PeerLink> {
 public:
  PeerLink(Runtime& runtime, int rank, int peer, LinkOptions options, std::shared_ptr<Aborts> aborts)
      : runtime_(runtime), rank_(rank), peer_(peer), options_(options), aborts_(std::move(aborts)) {}
  virtual ~PeerLink() = default;

  virtual Task<> send(Message message, ConstBytes payload) = 0;
  Task<> receive(Message message, Sink sink) { return receive(shared_from_this(), message, sink); }
  /// Ends the link: every pending and future operation fails with `error`.
  void revoke(std::exception_ptr error);
  /// revoke() because of what this rank has found: the peer is told why its operations in `scope` end.
  void give_up(Scope scope, std::exception_ptr error);
  /// Ends a scope: every pending operation in it fails. Future ones check the endpoint's aborts.
  void end(const Abort& abort);
  /// Whether the peer is lost. What it has sent may still be received.
  virtual bool has_ended() const { return ended(); }
  /// Whether this rank has given up on the peer, which may be alive.
  bool has_given_up() const { return gave_up_; }
  /// The peer's process has ended, whatever else keeps its connection open: the link ends once all is read that the
  /// peer has sent.
  virtual void end_with_its_process() {}
  /// See Endpoint::cut_off().
  virtual void cut_off(std::exception_ptr) {}
  /// Tells the peer of an abort; nothing is sent in that scope after it. It reads nothing: a message may be arriving.
  virtual void tell(const Abort& abort) = 0;
  /// Whether something that tell() was asked for is still on its way to the peer.
  virtual bool is_telling() const { return false; }
  /// See Endpoint::framing_bytes().
  virtual std::size_t framing_bytes() const { return frame_bytes; }
  /// See Endpoint::way().
  virtual std::string way() const = 0;
  /// Whether an operation of this rank is waiting for the peer.
  bool waits() const;
  /// See Endpoint::find_hang(); names the peer where nobody can be asked.
  void find_hang(std::function<void(const Hang&)> found);
  /// The messages that posted receives wait for.
  std::vector<Message> posted() const;

 protected:
  /// A receive that waits for its message.
  struct Posted {
    Posted(Runtime& runtime, Message message, Sink sink)
        : message(message), sink(sink), since(runtime.now()), done(runtime) {}
    Message message;
    Sink sink;
    Duration since;
    bool begun = false;   ///< its message has come, and is on its way to it
    bool in_use = false;  ///< something else than this thread is writing to its memory: the link fails it, not before
    bool filled = false;  ///< nothing is left to wait for
    Event done;
  };
  /// An unexpected message: its payload is kept here, or still in memory of the sender, which waits for its ticket.
  struct Arrived {
    Frame frame;
    Scratch payload;
    const std::byte* in_place = nullptr;  ///< the payload in the sender's memory; null: in `payload`
    std::uint64_t ticket = 0;

    /// The credit that it uses. Includes its bookkeeping, so that empty messages use credit too.
    std::uint64_t cost() const { return (in_place ? 0 : frame.payload) + sizeof(Arrived); }
  };
  /// One channel.
  struct Lane {
    std::uint32_t next_sent = 0, next_received = 0;
    std::list<std::shared_ptr<Posted>> posted;  // lists: a lane that is idle, as most are, holds no memory
    std::list<Arrived> arrived;
  };

  /// Called when a receive has been posted or credit has become free.
  virtual void asked() = 0;
  /// Closes what carries the bytes; failure() works by then.
  virtual void hang_up() = 0;
  /// hang_up() by a link that gives up, once the peer has been told why, or after telling_limit.
  virtual void say_farewell() { hang_up(); }
  /// Called when a scope ends: fails its pending sends and drops the message that is arriving in it.
  virtual void drop(const Abort& abort) = 0;
  /// Until when this rank itself is kept from running, and its watchdog with it.
  virtual Duration asleep_until() const { return Duration(0); }
  /// Called when an unexpected message is dropped.
  virtual void forget(const Arrived&) {}
  /// Gives an unexpected message to its receive.
  virtual void give(const Arrived& arrived, const Sink& sink);

  /// Throws Error(mismatch) if the frame is of another epoch.
  void check_epoch(const Frame& frame) const;
  /// The lane of a message that begins to arrive. Error(mismatch): its sequence number is not the next one.
  Lane& admit(const Frame& frame);
  /// The lane's first receive whose message has not begun; null if there is none.
  static std::shared_ptr<Posted> first_unbegun(const Lane& lane);
  /// Completes a receive of the lane, which has its payload; without one, the first.
  static void serve(Lane& lane, std::shared_ptr<Posted> posted = nullptr);

  bool ended() const { return error_ || !lost_.empty(); }
  /// Why the scope has ended; null if it has not.
  std::exception_ptr aborted(Scope scope) const { return aborts_->error(scope); }
  void throw_if_aborted(Scope scope) const {
    if (auto error = aborted(scope)) std::rethrow_exception(error);
  }
  /// Ends the link because of a failure (`why`); each operation's error says what it was doing.
  void lose(const std::string& why);
  std::exception_ptr failure(const char* doing, const Message& message) const;
  /// The error of an operation that ends because the peer is lost.
  std::exception_ptr loss(const std::string& why, const char* doing, const Message& message) const;
  /// How the frame differs from the expected message; null if it does not.
  std::exception_ptr mismatch(const Frame& frame, const Message& expected, std::uint64_t payload) const;

  /// The watchdog watches a send as long as this lives.
  class Watched {
   public:
    Watched(PeerLink* link, const Message& message);
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    ~Watched() {
      link_->sending_.erase(id_);
      ++link_->moved_out_;
    }

   private:
    PeerLink* link_;
    std::uint64_t id_;
  };

  Runtime& runtime_;
  const int rank_, peer_;
  const LinkOptions options_;
  const std::shared_ptr<Aborts> aborts_;
  std::map<Channel, Lane> lanes_;
  std::uint64_t unasked_ = 0;  ///< credit in use
  std::string lost_;
  std::exception_ptr error_;
  bool gave_up_ = false;
  /// Bytes of messages that have left for the peer and that have come from it: while these change, the watchdog finds
  /// nobody silent. Each message counts here; a link that shows its bytes on the way, too, adds them.
  std::uint64_t moved_out_ = 0, moved_in_ = 0;

 private:
  struct Sending {
    Message message;
    Duration since;
  };

  /// An operation that has waited too long.
  struct Overdue {
    Scope scope;
    std::string doing;                      ///< "waiting for ring of 10 fp32 .."
    std::function<bool()> is_still_waited;  ///< the link must live
  };

  static Task<> receive(std::shared_ptr<PeerLink> link, Message message, Sink sink);
  void fail_pending();
  void watch();
  void expire();
  std::optional<Overdue> find_overdue();
  void give_up_on(const Overdue& overdue, const Hang& hang);

  /// When bytes have moved last, seen from now and then.
  struct Seen {
    std::uint64_t bytes = 0;
    Duration at{0};
    void look(std::uint64_t moved, Duration now);
  };

  std::map<std::uint64_t, Sending> sending_;
  std::uint64_t next_send_ = 0;
  std::optional<Runtime::Timer> watchdog_;
  bool is_asking_ = false;  ///< who hangs, since an operation is overdue
  Seen seen_out_, seen_in_;
};

}  // namespace ripieno::transport
