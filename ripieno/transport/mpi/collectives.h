// MPI's own collectives, the route "native" (collective/native.h): MPI chooses the algorithm and moves the numbers.
//
// MPI matches collectives by the order of calls on a communicator. So each channel has a communicator of its own, its
// lane, and channels do not wait for each other. All ranks open lanes in the same order. MPI would not notice if ranks
// wanted different things: before a lane's first collective, and before each that differs from the one before it, every
// rank compares what it wants with its neighbours, by messages over the links, which nobody counts. A rank that repeats
// its last collective compares nothing; while it waits, it sees the message of a neighbour that does.
//
// MPI cannot take back a collective. When the scope ends, or a peer is lost that has not taken its part, calls fail
// once MPI no longer uses their memory; after a second, at most, this rank uses MPI no more, and they fail.
#pragma once

#include <array>
#include <deque>
#include <type_traits>

#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/mpi/link.h"

namespace ripieno::transport {

/// Used on the runtime's thread alone.
class MpiCollectives final : public MpiHub::Waiter, public std::enable_shared_from_this<MpiCollectives> {
 public:
  /// links[r] leads to rank r; links[rank] is empty.
  MpiCollectives(Runtime& runtime, int rank, std::vector<std::shared_ptr<MpiLink>> links, LinkOptions options,
                 std::shared_ptr<Aborts> aborts, std::shared_ptr<MpiHub> hub)
      : runtime_(runtime),
        rank_(rank),
        links_(std::move(links)),
        options_(options),
        aborts_(std::move(aborts)),
        hub_(std::move(hub)) {}

  /// The engine's (Endpoint::engine).
  static std::span<const EngineOperation> operations();
  void open(Channel channel) {
    if (!error_) lane_of(channel);
  }
  Task<> run(Collective collective, Message message, NumberSpan numbers, EngineTerms terms) {
    return run(shared_from_this(), collective, message, numbers, terms);
  }
  /// Makes every pending and future call fail; a pending call fails once MPI lets go of its memory.
  void stop(std::exception_ptr error);

  // For the hub.
  bool waits() const override { return !under_way_.empty() || !opening_.empty(); }
  void look() override;
  void break_off(const std::string& why) override;

 private:
  /// What all ranks must want alike.
  struct Wanted {
    std::uint64_t mark;    ///< of comparisons: other messages may come on the same channel
    std::uint64_t before;  ///< so many collectives have begun on the lane
    std::int32_t lane;     ///< all ranks have opened the channel as their lane of this number
    std::int32_t root;
    Collective collective;
    numeric::Reduce how;
    std::array<std::uint8_t, 6> rest;
    bool operator==(const Wanted&) const = default;
    bool repeats(const Wanted& other) const {
      return collective == other.collective && how == other.how && root == other.root;
    }
  };
  static_assert(std::has_unique_object_representations_v<Wanted>, "it travels as it lies in memory");
  struct Lane {
    Lane(Runtime& runtime, int number, Duration since) : number(number), since(since), opened(runtime) {}
    const int number;
    const Duration since;  ///< when it was asked for
    Event opened;
    bool in_use = false;
    std::uint64_t begun = 0;  ///< collectives
    std::optional<std::pair<Wanted, Message>> last;
  };
  /// A call whose memory MPI may be using.
  struct Call {
    Call(Runtime& runtime, Wanted wanted, Message message) : wanted(wanted), message(message), done(runtime) {}
    /// Puts the outcome in its place.
    void finish() const;
    Wanted wanted;
    Message message;
    Duration since{};
    ripieno_mpi_collective collective{};
    std::vector<int> counts, starts;
    Scratch spare;       ///< where the outcome arrives, if not in place
    NumberSpan outcome;  ///< its place then
    Event done;
  };

  static Task<> run(std::shared_ptr<MpiCollectives> self, Collective collective, Message message, NumberSpan numbers,
                    EngineTerms terms);
  static Task<> compare(MpiCollectives* self, Wanted wanted, Message message);
  const std::shared_ptr<Lane>& lane_of(Channel channel);
  void open_next();
  Call make_call(Wanted wanted, Message message, NumberSpan numbers) const;
  bool spin(Mpi::Request* request) const;
  void end(const std::shared_ptr<Call>& call);
  std::exception_ptr parted_from(const Wanted& wanted, const Message& message, int peer, const Wanted& theirs,
                                 const Message& their_message) const;
  std::exception_ptr parted(const Call& call) const;
  std::exception_ptr parted() const;
  bool lacks_a_rank() const;
  void find_hang(Duration since);
  void end_all(std::exception_ptr error);
  std::string gave_up_on(const std::string& why) const;
  std::exception_ptr error(ErrorKind kind, const std::string& why, std::optional<Loss> loss = std::nullopt) const;
  int ranks() const { return static_cast<int>(links_.size()); }
  int previous() const { return (rank_ + ranks() - 1) % ranks(); }

  Runtime& runtime_;
  const int rank_;
  const std::vector<std::shared_ptr<MpiLink>> links_;
  const LinkOptions options_;
  const std::shared_ptr<Aborts> aborts_;
  const std::shared_ptr<MpiHub> hub_;
  std::map<Channel, std::shared_ptr<Lane>> lanes_;
  std::deque<std::shared_ptr<Lane>> opening_;  ///< one after the other, the first one now
  std::vector<std::shared_ptr<Call>> under_way_;
  std::exception_ptr error_;       ///< of pending and future calls
  std::optional<Duration> alone_;  ///< since when a rank has been missing
  bool is_asking_ = false;         ///< who hangs, since a call is overdue
  Duration last_look_{};           ///< after an error: MPI is used no more if something is pending then
};

}  // namespace ripieno::transport
