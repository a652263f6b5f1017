// Communicator: a group of the ranks behind an endpoint, renumbered from zero in its own order. It hands out its own
// channels, and it ends on its own: the first error of any member ends its operations on all members (abort), but no
// other communicator's.
//
// A handle is cheap to copy, for 4 ranks and for 4,096; copies share one state. All members split it, take channels
// from it and exchange values in the same order.
//
//   const auto nodes = co_await comm.split(comm.rank() / 8);           // eight ranks each
//   const std::vector<Sizes> sizes = co_await comm.all_gather(mine);  // a struct of each
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ripieno/collective/schedule.h"
#include "ripieno/core/memory.h"
#include "ripieno/transport/endpoint.h"

namespace ripieno::collective {

/// The most parts of a buffer (ExecuteOptions::segment_bytes) that one operation may have in flight on its channel.
inline constexpr std::uint32_t parts_of_a_channel = 64;

class Communicator {
 public:
  /// All ranks behind the endpoint, with the endpoint's numbers; every `per_node` consecutive ranks share a node.
  explicit Communicator(std::shared_ptr<transport::Endpoint> endpoint, int per_node = 1);

  /// `members` are ranks of the endpoint, its own among them, in the same order on every member. No other communicator
  /// with two of these members may have the same scope.
  Communicator(std::shared_ptr<transport::Endpoint> endpoint, std::vector<int> members, transport::Scope scope = 0,
               int per_node = 1);

  int rank() const { return state_->rank; }
  int size() const { return state_->size; }
  World world() const { return {state_->size, per_node_}; }
  /// The same members, with `per_node` consecutive ones on a node.
  Communicator on_nodes(int per_node) const;
  /// The endpoint's rank of member `i`.
  int member(int i) const { return state_->members.empty() ? i : state_->members[static_cast<std::size_t>(i)]; }
  transport::Scope scope() const { return state_->scope; }

  transport::Endpoint& endpoint() const { return *state_->endpoint; }
  const std::shared_ptr<transport::Endpoint>& shared_endpoint() const { return state_->endpoint; }
  Runtime& runtime() const { return state_->endpoint->runtime(); }
  /// Memory that is fastest to exchange from (Endpoint::memory).
  Memory memory() const {
    return [endpoint = state_->endpoint](std::size_t bytes) { return endpoint->memory(bytes); };
  }

  /// The engine's operation that does what this route does (Endpoint::engine). Null if the engine has none, or unless
  /// all ranks are members under their own numbers.
  const transport::EngineOperation* find_engine(std::string_view route, transport::Collective collective, DType type,
                                                transport::Channel channel = {}) const {
    if (!state_->members.empty()) return nullptr;
    channel.scope = state_->scope;
    return state_->endpoint->find_engine(route, collective, type, channel);
  }

  /// Hands out `count` unused channels, from the returned one on, for operations that run at once
  /// (ExecuteOptions::channel). It never hands out channel 0, which is for operations that run one after the other.
  std::uint32_t take_channels(std::uint32_t count = 1) const;
  /// A channel, taken with take_channels(), for messages between members.
  transport::Channel channel(std::uint32_t taken, observe::Purpose purpose) const {
    return {purpose, taken * parts_of_a_channel, state_->scope};
  }

  /// Reserves a channel for one operation while the returned object lives. Error(internal): another operation of this
  /// rank is using the channel; their messages would be confused.
  class Use;
  Use use(transport::Channel channel) const;

  /// Ends all operations on this communicator, on all members: here with `error`, elsewhere with an Error(peer) that
  /// says why.
  void abort(std::exception_ptr error) const;
  /// From now on abort() of this communicator on this rank also aborts `part`, for operations that wait there.
  void takes_along(const Communicator& part) const { state_->taken_along.push_back(part.state_); }
  /// abort() as an error handler.
  std::function<void(std::exception_ptr)> ending() const {
    return [state = state_.get()](std::exception_ptr error) { abort(*state, error); };
  }

  /// After an abort: a communicator of the same members in a new scope. Every member calls it, once.
  Communicator renewed() const;

  /// A communicator of the same members, in a scope of its own for each number, without any message. It does not end
  /// with this one.
  Communicator aside(std::uint64_t number) const { return with_scope_for(for_asides, number); }

  /// After a loss: a communicator of the members that are alive, in the same order; without a loss, this one. Throws as
  /// Endpoint::survivors.
  Task<Communicator> survivors() const { return survivors_of(*this); }

  // Small values that members exchange: of any trivially copyable type, the same on all members, one call after the
  // other. Rounds: ceil(log2 P); all_reduce: twice as many. Error(mismatch): the members' values differ in size.

  /// The root's value, on all members.
  template <class T>
  Task<T> broadcast(T value, int root = 0, observe::Purpose purpose = observe::Purpose::control) const {
    return broadcast_value(*this, value, root, purpose);
  }
  /// The root's values, on all members; their number may differ before.
  template <class T>
  Task<std::vector<T>> broadcast(std::vector<T> values, int root = 0,
                                 observe::Purpose purpose = observe::Purpose::control) const {
    return broadcast_values(*this, std::move(values), root, purpose);
  }
  Task<std::string> broadcast(std::string value, int root = 0,
                              observe::Purpose purpose = observe::Purpose::control) const;

  /// Every member's value, by member, on all members.
  template <class T>
  Task<std::vector<T>> all_gather(T value, observe::Purpose purpose = observe::Purpose::control) const {
    return gather_values(*this, value, purpose);
  }
  Task<std::vector<std::string>> all_gather(std::string value,
                                            observe::Purpose purpose = observe::Purpose::control) const;

  /// The reduction of all members' values, whose type is a DType.
  template <class T>
  Task<T> all_reduce(T value, Reduction reduction = Reduction::sum,
                     observe::Purpose purpose = observe::Purpose::control) const {
    return reduce_value(*this, value, reduction, purpose);
  }

  /// Returns when all members have called it.
  Task<> barrier() const;

  /// Splits it by colour: the members of each colour form a communicator, ordered by key and then by rank here. A
  /// member with a colour below zero gets nullopt, but calls it too. A part keeps its nodes if it has the same number
  /// of members on each, of which the last may have fewer; else each of its members counts as a node.
  Task<std::optional<Communicator>> split(int colour, int key = 0) const;
  /// Sets `into` to a communicator of the same members, with channels and errors of its own; it ends with this one.
  /// Every member calls it.
  Task<> duplicate(std::optional<Communicator>* into) const { return duplicate_of(*this, into); }

 private:
  struct State {
    std::shared_ptr<transport::Endpoint> endpoint;
    std::vector<int> members;               ///< the endpoint's ranks; empty: all ranks, under their own numbers
    transport::Scope scope = 0, whole = 0;  ///< its own, and that of the communicator whose survivors it holds
    int rank = 0, size = 1;
    std::uint32_t next_channel = 1;
    std::uint64_t splits = 0;  ///< how many communicators were made from it
    bool aborted = false;
    std::vector<transport::Channel> in_use;
    std::vector<std::weak_ptr<State>> taken_along;  ///< that end with it
  };
  static void abort(State& state, std::exception_ptr error);
  static constexpr std::uint64_t for_asides = 0x617369646573;  // "asides"
  Communicator with_scope_for(std::uint64_t what_for, std::uint64_t number) const;

  // Coroutines that hold their own copy, since the caller's communicator may be destroyed while they run.
  template <class T>
  static Task<T> broadcast_value(Communicator comm, T value, int root, observe::Purpose purpose) {
    static_assert(std::is_trivially_copyable_v<T>);
    co_await broadcast_bytes(comm, std::as_writable_bytes(std::span<T>(&value, 1)), root, purpose);
    co_return value;
  }
  template <class T>
  static Task<std::vector<T>> broadcast_values(Communicator comm, std::vector<T> values, int root,
                                               observe::Purpose purpose) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::uint64_t count = co_await broadcast_value<std::uint64_t>(comm, values.size(), root, purpose);
    values.resize(count);
    co_await broadcast_bytes(comm, std::as_writable_bytes(std::span<T>(values)), root, purpose);
    co_return values;
  }
  template <class T>
  static Task<std::vector<T>> gather_values(Communicator comm, T value, observe::Purpose purpose) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> values(static_cast<std::size_t>(comm.size()));
    values[static_cast<std::size_t>(comm.rank())] = value;
    co_await gather_bytes(comm, std::as_writable_bytes(std::span<T>(values)), purpose);
    co_return values;
  }
  template <class T>
  static Task<T> reduce_value(Communicator comm, T value, Reduction reduction, observe::Purpose purpose) {
    co_await reduce_numbers(comm, NumberSpan(std::span<T>(&value, 1)), reduction, purpose);
    co_return value;
  }
  static Task<std::string> broadcast_text(Communicator comm, std::string value, int root, observe::Purpose purpose);
  static Task<std::vector<std::string>> gather_texts(Communicator comm, std::string value, observe::Purpose purpose);
  static Task<> meet(Communicator comm);
  static Task<std::optional<Communicator>> part_of(Communicator comm, int colour, int key, transport::Scope scope);
  static Task<> duplicate_of(Communicator comm, std::optional<Communicator>* into);
  static Task<Communicator> survivors_of(Communicator comm);
  static Task<> broadcast_bytes(Communicator comm, Bytes bytes, int root, observe::Purpose purpose);
  /// `all` holds equally many bytes of each member.
  static Task<> gather_bytes(Communicator comm, Bytes all, observe::Purpose purpose);
  static Task<> reduce_numbers(Communicator comm, NumberSpan numbers, Reduction reduction, observe::Purpose purpose);

  std::shared_ptr<State> state_;
  int per_node_ = 1;
};

class Communicator::Use {
 public:
  Use(Use&& other) noexcept : state_(std::move(other.state_)), channel_(other.channel_) {}
  Use& operator=(Use&&) = delete;
  ~Use() {
    if (state_) std::erase(state_->in_use, channel_);
  }

 private:
  friend class Communicator;
  Use(std::shared_ptr<State> state, transport::Channel channel) : state_(std::move(state)), channel_(channel) {}

  std::shared_ptr<State> state_;
  transport::Channel channel_;
};

}  // namespace ripieno::collective
