// Communicator: some of the ranks behind an endpoint, renumbered from zero in an order of their own, and what they say to
// each other. It has channels of its own, which it gives out, and an end of its own: the first error of any of its members
// ends its operations on all of them (abort), and no other communicator's.
//
// A handle is cheap to copy and costs the same for 4 and for 4,096 ranks; copies share one state. Members use it alike:
// they split it, and take channels from it, in the same order.
#pragma once

#include <memory>
#include <vector>

#include "ripieno/collective/schedule.h"
#include "ripieno/core/memory.h"
#include "ripieno/transport/endpoint.h"

namespace ripieno {

class Communicator {
 public:
  /// All ranks behind the endpoint, by their own numbers; `per_node` of them after each other share a node.
  explicit Communicator(std::shared_ptr<Endpoint> endpoint, int per_node = 1);

  /// `members` are ranks of the endpoint, its own among them; the same list on every member, and a scope that no other
  /// communicator with two of them has.
  Communicator(std::shared_ptr<Endpoint> endpoint, std::vector<int> members, Scope scope = 0, int per_node = 1);

  int rank() const { return state_->rank; }
  int size() const { return state_->size; }
  World world() const { return {state_->size, per_node_}; }
  /// The same members, `per_node` of them after each other on a node.
  Communicator on_nodes(int per_node) const;
  /// The endpoint's rank of member `i`.
  int member(int i) const { return state_->members.empty() ? i : state_->members[static_cast<std::size_t>(i)]; }
  Scope scope() const { return state_->scope; }

  Endpoint& endpoint() const { return *state_->endpoint; }
  const std::shared_ptr<Endpoint>& shared_endpoint() const { return state_->endpoint; }
  Runtime& runtime() const { return state_->endpoint->runtime(); }
  /// What is exchanged lies there best (Endpoint::memory).
  Memory memory() const {
    return [endpoint = state_->endpoint](std::size_t bytes) { return endpoint->memory(bytes); };
  }

  /// What the engine does for all of its members (Endpoint::engine): null where it is none of its operations, or not all
  /// ranks are members by their own numbers.
  const EngineOperation* find_engine(Collective collective, DType type, Channel channel = {}) const {
    if (!state_->members.empty()) return nullptr;
    channel.scope = state_->scope;
    return state_->endpoint->find_engine(collective, type, channel);
  }

  /// Gives out the first of `count` channels that nobody else has (ExecuteOptions::channel).
  std::uint32_t take_channels(std::uint32_t count) const;

  /// Ends all operations on it, on all members, with `error` here and an Error(peer) that says why elsewhere.
  void abort(std::exception_ptr error) const;
  /// abort(), for what tells of errors.
  std::function<void(std::exception_ptr)> ending() const {
    return [state = state_.get()](std::exception_ptr error) { abort(*state, error); };
  }

  /// Those of its members that are alive after a loss, in the same order (Endpoint::survivors, of which it has the errors).
  Communicator survivors() const;

 private:
  struct State {
    std::shared_ptr<Endpoint> endpoint;
    std::vector<int> members;  ///< the endpoint's ranks; empty: all, by their own numbers
    Scope scope = 0;
    int rank = 0, size = 1;
    std::uint32_t next_channel = 1;  ///< 0 is for what goes on one after the other
    bool aborted = false;
  };
  static void abort(State& state, std::exception_ptr error);

  std::shared_ptr<State> state_;
  int per_node_ = 1;
};

}  // namespace ripieno
