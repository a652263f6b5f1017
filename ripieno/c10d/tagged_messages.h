// Messages with tags between the ranks of a group, which the receiver picks by tag, and by sender or from any. The
// endpoint below has channels between pairs only, and limits what may come before it is asked for; so:
//
// 1. A sender announces every message by an envelope: its number, tag, type and size. Up to `eager_bytes` the payload
//    follows at once.
// 2. The receiver reads a peer's envelopes while somebody wants a message that may come from it, and gives each to the
//    first receive that wants it, or keeps it for a later one.
// 3. A larger payload is sent once the receiver has granted it. So what nobody receives yet costs the receiver no
//    memory, and never keeps other messages back.
//
// If a receive expects another type or size than was sent, that receive fails, and so does the send of a larger
// message; all others go on.
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

/// Used on the runtime's thread alone.
class TaggedMessages : public std::enable_shared_from_this<TaggedMessages> {
 public:
  static constexpr std::size_t eager_bytes = 32 << 10;
  static constexpr int any_rank = -1;

  /// In a scope of its own, between all ranks of the endpoint.
  explicit TaggedMessages(std::shared_ptr<transport::Endpoint> endpoint);

  /// Returns when `bytes` may be overwritten. Error(peer): the peer is lost, or has not received a larger message
  /// within `limit`. Error(mismatch): the peer expected another type or size.
  Task<> send(int peer, Tag tag, Bytes bytes, DType type, Duration limit) {
    return send(shared_from_this(), peer, tag, bytes, type, limit);
  }
  /// Returns the sender. Error(peer): the peer (or with any_rank any peer) is lost, or nothing has come within `limit`;
  /// a message that comes later goes to the next receive. Error(mismatch): it has another type or size.
  Task<int> receive(int peer, Tag tag, Bytes bytes, DType type, Duration limit) {
    return receive(shared_from_this(), peer, tag, bytes, type, limit);
  }
  /// Ends everything that waits, here and on all ranks.
  void abort(std::exception_ptr error) { comm_.abort(error); }

 private:
  struct Envelope {
    Tag tag = 0;
    std::uint64_t number = 0, bytes = 0;
    std::uint32_t type = 0, is_eager = 0;
  };
  struct Grant {
    std::uint64_t number = 0;
    std::uint64_t expected_bytes = 0;  ///< what the receiver wants
    std::uint32_t expected_type = 0, is_granted = 0;
  };
  /// A receive that waits.
  struct Wanted {
    Wanted(Runtime& runtime, int peer, Tag tag, Bytes into, DType type)
        : peer(peer), tag(tag), into(into), type(type), done(runtime) {}
    const int peer;
    const Tag tag;
    const Bytes into;
    const DType type;
    int sender = -1;  ///< once its message is known
    Event done;
  };
  /// A larger message that waits for its grant.
  struct Announced {
    explicit Announced(Runtime& runtime) : answered(runtime) {}
    Grant grant;
    Event answered;
  };
  struct Peer {
    std::uint64_t sent = 0;
    bool hears_envelopes = false, hears_grants = false;
    std::map<Tag, std::deque<std::pair<std::uint64_t, Envelope>>> kept;  ///< with the order of arrival over all peers
    std::map<std::uint64_t, std::shared_ptr<Announced>> announced;
    std::exception_ptr lost;
  };
  using Self = std::shared_ptr<TaggedMessages>;

  static Task<> send(Self self, int peer, Tag tag, Bytes bytes, DType type, Duration limit);
  static Task<int> receive(Self self, int peer, Tag tag, Bytes bytes, DType type, Duration limit);
  static Task<> hear_envelopes(Self self, int peer);
  static Task<> hear_grants(Self self, int peer);
  static Task<> fetch(Self self, int peer, Envelope envelope, std::shared_ptr<Wanted> wanted);

  /// The peer whose kept envelope came first; none: any_rank.
  int first_kept(int peer, Tag tag) const;
  Envelope take_kept(int peer, Tag tag);
  /// The receive that the envelope is for, which waits no more; null if there is none yet.
  std::shared_ptr<Wanted> take_wanted(int peer, Tag tag);
  bool is_wanted_from(int peer) const;
  void listen();
  void lose(int peer, std::exception_ptr error);
  transport::Message message(const char* operation, transport::Channel channel, DType type, std::uint64_t bytes) const;
  transport::Channel control(std::uint32_t id) const { return {observe::Purpose::control, id, comm_.scope()}; }
  transport::Channel payload_of(const Envelope& envelope) const;
  std::string mine() const { return text("rank ", comm_.rank(), ": "); }

  const collective::Communicator comm_;
  std::vector<Peer> peers_;
  std::list<std::shared_ptr<Wanted>> wanted_;  ///< in the order in which they came
  std::uint64_t arrivals_ = 0;
};

}  // namespace ripieno::c10d
