// Communicator: some of the ranks behind an endpoint, renumbered from zero in an order of their own, and what they say
// to each other. It has channels of its own, which it gives out, and an end of its own: the first error of any of its
// members ends its operations on all of them (abort), and no other communicator's.
//
// A handle is cheap to copy and costs the same for 4 and for 4,096 ranks; copies share one state. Members use it alike:
// they split it, take channels from it, and tell each other values, in the same order.
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

/// What one operation may have in flight at once on its channel: the parts of a buffer (ExecuteOptions::segment_bytes).
inline constexpr std::uint32_t parts_of_a_channel = 64;

class Communicator {
 public:
  /// All ranks behind the endpoint, by their own numbers; `per_node` of them after each other share a node.
  explicit Communicator(std::shared_ptr<transport::Endpoint> endpoint, int per_node = 1);

  /// `members` are ranks of the endpoint, its own among them; the same list on every member, and a scope that no other
  /// communicator with two of them has.
  Communicator(std::shared_ptr<transport::Endpoint> endpoint, std::vector<int> members, transport::Scope scope = 0,
               int per_node = 1);

  int rank() const { return state_->rank; }
  int size() const { return state_->size; }
  World world() const { return {state_->size, per_node_}; }
  /// The same members, `per_node` of them after each other on a node.
  Communicator on_nodes(int per_node) const;
  /// The endpoint's rank of member `i`.
  int member(int i) const { return state_->members.empty() ? i : state_->members[static_cast<std::size_t>(i)]; }
  transport::Scope scope() const { return state_->scope; }

  transport::Endpoint& endpoint() const { return *state_->endpoint; }
  const std::shared_ptr<transport::Endpoint>& shared_endpoint() const { return state_->endpoint; }
  Runtime& runtime() const { return state_->endpoint->runtime(); }
  /// What is exchanged lies there best (Endpoint::memory).
  Memory memory() const {
    return [endpoint = state_->endpoint](std::size_t bytes) { return endpoint->memory(bytes); };
  }

  /// What the engine does for all of its members (Endpoint::engine): null where it is none of its operations, or not
  /// all ranks are members by their own numbers.
  const transport::EngineOperation* find_engine(transport::Collective collective, DType type,
                                                transport::Channel channel = {}) const {
    if (!state_->members.empty()) return nullptr;
    channel.scope = state_->scope;
    return state_->endpoint->find_engine(collective, type, channel);
  }

  /// Gives out `count` channels that nobody else has, from the returned one on, for what goes on at once
  /// (ExecuteOptions::channel). 0 is never given out: it is for what goes on one after the other.
  std::uint32_t take_channels(std::uint32_t count = 1) const;
  /// Such a channel for messages from member to member.
  transport::Channel channel(std::uint32_t taken, observe::Purpose purpose) const {
    return {purpose, taken * parts_of_a_channel, state_->scope};
  }

  /// Keeps an operation's channel for it while it goes on. Error(internal): another one is under way there on this
  /// rank, whose messages would be taken for its own.
  class Use;
  Use use(transport::Channel channel) const;

  /// Ends all operations on it, on all members, with `error` here and an Error(peer) that says why elsewhere.
  void abort(std::exception_ptr error) const;
  /// From now on an abort() of it on this rank is one of `part`, too: for who waits in a part of it.
  void takes_along(const Communicator& part) const { state_->taken_along.push_back(part.state_); }
  /// abort(), for what tells of errors.
  std::function<void(std::exception_ptr)> ending() const {
    return [state = state_.get()](std::exception_ptr error) { abort(*state, error); };
  }

  /// After its end: the same members anew, in a scope of its own. Every member calls it, once.
  Communicator renewed() const;

  /// Those of its members that are alive after a loss, in the same order (Endpoint::survivors, of which it has the
  /// errors).
  Communicator survivors() const;

  // What members tell each other beside their numbers: values of any type that can be copied bit by bit, the same on
  // all members, one after the other. Rounds: ceil(log2 P); all_reduce: twice as many. Error(mismatch): members tell
  // each other values of other sizes.

  /// The root's value, on all members.
  template <class T>
  Task<T> broadcast(T value, int root = 0, observe::Purpose purpose = observe::Purpose::control) const {
    return broadcast_value(*this, value, root, purpose);
  }
  /// As many values as the root has.
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

  /// What all members' values, which are of a DType, come to.
  template <class T>
  Task<T> all_reduce(T value, Reduction reduction = Reduction::sum,
                     observe::Purpose purpose = observe::Purpose::control) const {
    return reduce_value(*this, value, reduction, purpose);
  }

  /// Returns when all members have called it.
  Task<> barrier() const;

  /// Parts it by colour: the members of each are a communicator of their own, in the order of their keys and then of
  /// their ranks here. Nothing for a colour below zero. Members of one node stay on one, if a part has as many on each
  /// of its nodes; else each is taken for a node of its own. Every member calls it, also one that takes no part.
  Task<std::optional<Communicator>> split(int colour, int key = 0) const;

 private:
  struct State {
    std::shared_ptr<transport::Endpoint> endpoint;
    std::vector<int> members;               ///< the endpoint's ranks; empty: all, by their own numbers
    transport::Scope scope = 0, whole = 0;  ///< its own, and that of those whose survivors its members are
    int rank = 0, size = 1;
    std::uint32_t next_channel = 1;
    std::uint64_t splits = 0;  ///< communicators made from it
    bool aborted = false;
    std::vector<transport::Channel> in_use;
    std::vector<std::weak_ptr<State>> taken_along;  ///< that end with it
  };
  static void abort(State& state, std::exception_ptr error);

  // Coroutines that keep a communicator of their own: it may be gone where they were called.
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
  static Task<> broadcast_bytes(Communicator comm, Bytes bytes, int root, observe::Purpose purpose);
  /// `all` holds as many bytes of each member.
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
