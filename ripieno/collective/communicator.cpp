#include "ripieno/collective/communicator.h"

#include <algorithm>
#include <numeric>

namespace ripieno {
namespace {

constexpr std::uint64_t for_scopes = 0x73636F706573;  // "scopes": what random numbers are used for

bool are_all(const std::vector<int>& members, int size) {
  if (static_cast<int>(members.size()) != size) return false;
  for (int i = 0; i < size; ++i) {
    if (members[static_cast<std::size_t>(i)] != i) return false;
  }
  return true;
}

/// A scope of its own for each number: they are too many to meet by chance.
Scope scope_under(Scope parent, std::uint64_t number) { return Random(parent ^ for_scopes, number).next(); }

}  // namespace

Communicator::Communicator(std::shared_ptr<Endpoint> endpoint, int per_node) : state_(std::make_shared<State>()), per_node_(per_node) {
  require(per_node >= 1, "a communicator with ", per_node, " members a node: at least 1");
  state_->rank = endpoint->rank();
  state_->size = endpoint->size();
  state_->endpoint = std::move(endpoint);
}

Communicator::Communicator(std::shared_ptr<Endpoint> endpoint, std::vector<int> members, Scope scope, int per_node)
    : Communicator(std::move(endpoint), per_node) {
  const auto me = std::find(members.begin(), members.end(), state_->rank);
  require(me != members.end(), "rank ", state_->rank, " is not a member of its communicator");
  state_->rank = static_cast<int>(me - members.begin());
  state_->size = static_cast<int>(members.size());
  state_->scope = scope;
  if (!are_all(members, state_->endpoint->size())) state_->members = std::move(members);
}

Communicator Communicator::on_nodes(int per_node) const {
  require(per_node >= 1, "a communicator with ", per_node, " members a node: at least 1");
  Communicator other = *this;
  other.per_node_ = per_node;
  return other;
}

std::uint32_t Communicator::take_channels(std::uint32_t count) const {
  const std::uint32_t first = state_->next_channel;
  state_->next_channel += count;
  return first;
}

void Communicator::abort(std::exception_ptr error) const { abort(*state_, error); }

void Communicator::abort(State& state, std::exception_ptr error) {
  if (std::exchange(state.aborted, true)) return;
  std::vector<int> members = state.members;
  if (members.empty()) {
    members.resize(static_cast<std::size_t>(state.size));
    std::iota(members.begin(), members.end(), 0);
  }
  state.endpoint->abort(state.scope, members, error);
}

Communicator Communicator::survivors() const {
  const std::vector<int> alive = state_->endpoint->survivors();
  const auto lost = static_cast<std::uint64_t>(state_->endpoint->size()) - alive.size();
  if (lost == 0) return *this;
  std::vector<int> members;
  for (int i = 0; i < size(); ++i) {
    if (std::binary_search(alive.begin(), alive.end(), member(i))) members.push_back(member(i));
  }
  return Communicator(state_->endpoint, std::move(members), scope_under(0, lost));
}

}  // namespace ripieno
