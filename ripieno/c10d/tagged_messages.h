// Messages with tags between the ranks of a group, which the receiver picks by tag, and by sender or from any. The
// endpoint below has channels between pairs only, and limits what may come before it is asked for; so:
//
// 1. A sender announces every message by an envelope: its number, tag, type and size. Of up to `eager_bytes` the
//    payload follows at once, as long as the receiver has not left more than `unread_bytes` of such payloads unread.
// 2. The receiver reads a peer's envelopes while somebody wants a message that may come from it. It gives each to the
//    first receive that wants it, or keeps it, with the payload that follows it, for a later one. Now and then it
//    tells the sender how much it has read.
// 3. Any other payload is sent once the receiver has granted it, one at a time. So what nobody receives yet costs the
//    receiver no memory, and keeps no other messages back.
//
// If a receive expects another type or size than was sent, that receive fails, and so does the send of a payload that
// needs a grant; all others go on. A message that is not taken within its sender's limit, or that was granted and does
// not come within its receiver's, ends all messages.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/async.h"

namespace ripieno::c10d {

/// From zero on; those of users have 31 bits.
using Tag = std::int64_t;
inline constexpr Tag internal_tags = Tag{1} << 32;  ///< from here on: the library's own

/// Of a tensor's elements: at::ScalarType.
using TypeCode = std::uint32_t;

/// The members of a communicator of all ranks, in a scope of its own.
std::vector<int> everybody(const transport::Endpoint& endpoint);

/// Used on the runtime's thread alone.
class TaggedMessages : public std::enable_shared_from_this<TaggedMessages> {
 public:
  static constexpr std::size_t eager_bytes = 32 << 10, unread_bytes = 1 << 20;
  static constexpr int any_rank = -1;

  /// In a scope of its own, between all ranks of the endpoint.
  explicit TaggedMessages(std::shared_ptr<transport::Endpoint> endpoint);

  /// Returns when `bytes` may be overwritten. Error(peer): the peer is lost, or has not received a larger message
  /// within `limit`. Error(mismatch): the peer expected another type or size.
  Task<> send(int peer, Tag tag, Bytes bytes, TypeCode type, Duration limit) {
    return send(shared_from_this(), peer, tag, bytes, type, limit);
  }
  /// Returns the sender. Error(peer): the peer (or with any_rank any peer) is lost, or nothing has come within `limit`;
  /// a message that comes later goes to the next receive. Error(mismatch): it has another type or size.
  Task<int> receive(int peer, Tag tag, Bytes bytes, TypeCode type, Duration limit) {
    return receive(shared_from_this(), peer, tag, bytes, type, limit);
  }
  /// Ends everything that waits, here and on all ranks.
  void abort(const std::exception_ptr& error);
  /// Ends what this rank still listens for; the others are not told.
  Task<> close() { return close(shared_from_this()); }

 private:
  struct Envelope {
    Tag tag = 0;
    std::uint64_t number = 0, bytes = 0;
    TypeCode type = 0;
    std::uint32_t is_eager = 0;
  };
  /// The receiver's answer to an envelope, or how much it has read.
  struct Grant {
    enum Kind : std::uint32_t { refused, granted, read };
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;  ///< what the receiver wants, or has read
    TypeCode type = 0;
    Kind kind = refused;
  };
  /// A receive that waits.
  struct Wanted {
    Wanted(Runtime& runtime, int peer, Tag tag, Bytes into, TypeCode type)
        : peer(peer), tag(tag), into(into), type(type), done(runtime) {}
    const int peer;
    const Tag tag;
    const Bytes into;
    const TypeCode type;
    int sender = -1;  ///< once its message is known
    Event done;
  };
  /// A payload that waits for its grant.
  struct Announced {
    explicit Announced(Runtime& runtime) : answered(runtime) {}
    Grant grant;
    Event answered;
  };
  /// An envelope that nobody wants yet, with the payload if that followed it.
  struct Kept {
    std::uint64_t arrival = 0;  ///< over all peers
    Envelope envelope;
    std::shared_ptr<Scratch> payload;
  };
  struct Peer {
    explicit Peer(Runtime& runtime) : sending(runtime), fetching(runtime) {}
    Mutex sending;   ///< held from an envelope to the payload that follows it
    Mutex fetching;  ///< held from a grant to its payload
    std::uint64_t sent = 0;
    std::uint64_t unread = 0;  ///< bytes that were sent at once, and that the peer has not said to have read
    std::uint64_t read = 0;    ///< bytes that were read since this rank said so
    bool hears_envelopes = false, hears_grants = false;
    std::map<Tag, std::deque<Kept>> kept;
    std::map<std::uint64_t, std::shared_ptr<Announced>> announced;
    std::exception_ptr lost;
  };
  using Self = std::shared_ptr<TaggedMessages>;

  static Task<> send(Self self, int peer, Tag tag, Bytes bytes, TypeCode type, Duration limit);
  static Task<> announce(Self self, int peer, Envelope* envelope, Bytes bytes);
  static Task<> send_granted(Self self, int peer, Envelope envelope, Bytes bytes, Duration limit);
  static Task<int> receive(Self self, int peer, Tag tag, Bytes bytes, TypeCode type, Duration limit);
  static Task<> close(Self self);
  static Task<> hear_envelopes(Self self, int peer);
  static Task<> hear_envelope(Self self, int peer);
  static Task<> hear_grants(Self self, int peer);
  static Task<> fetch(Self self, int peer, Envelope envelope, std::shared_ptr<Wanted> wanted);
  static Task<> counted(Self self, Task<> task);

  /// Runs a task beside the others.
  void start(Task<> task);
  /// The peer whose kept envelope came first; none: any_rank.
  int first_kept(int peer, Tag tag) const;
  Kept take_kept(int peer, Tag tag);
  /// The receive that the envelope is for, which waits no more; null if there is none yet.
  std::shared_ptr<Wanted> take_wanted(int peer, Tag tag);
  bool is_wanted_from(int peer) const;
  void give(int peer, const Kept& kept, const std::shared_ptr<Wanted>& wanted);
  /// The receive's error if the message is not what it expects; else null.
  std::exception_ptr misfit(int peer, const Envelope& envelope, const Wanted& wanted) const;
  /// Why a send that has not ended within its limit fails.
  std::exception_ptr not_received(int peer, const Envelope& envelope, Duration limit) const;
  void listen();
  void lose(int peer, const std::exception_ptr& error);
  transport::Message message(const char* operation, std::uint32_t channel, std::uint64_t bytes) const;
  Peer& peer(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }
  std::string mine() const { return text("rank ", comm_.rank(), ": "); }

  const collective::Communicator comm_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::list<std::shared_ptr<Wanted>> wanted_;  ///< in the order in which they came
  std::uint64_t arrivals_ = 0;
  int running_ = 0;  ///< tasks that run beside the others
};

}  // namespace ripieno::c10d
