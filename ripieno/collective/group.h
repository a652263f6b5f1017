// Who takes part in a collective: a subset of the ranks behind an endpoint, renumbered from zero in the order given.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "ripieno/collective/schedule.h"
#include "ripieno/core/memory.h"
#include "ripieno/transport/endpoint.h"

namespace ripieno {

class Group {
 public:
  /// All ranks.
  explicit Group(std::shared_ptr<Endpoint> endpoint) : Group(endpoint, everyone(endpoint->size())) {}

  /// `members` holds the endpoint's own rank; the same list on every member. `per_node` of them after each other share a
  /// node.
  Group(std::shared_ptr<Endpoint> endpoint, std::vector<int> members, int per_node = 1)
      : endpoint_(std::move(endpoint)), members_(std::move(members)), per_node_(per_node) {
    require(per_node >= 1, "a group with ", per_node, " members a node: at least 1");
    const auto me = std::find(members_.begin(), members_.end(), endpoint_->rank());
    require(me != members_.end(), "rank ", endpoint_->rank(), " is not a member of its group");
    rank_ = static_cast<int>(me - members_.begin());
    everyone_ = members_ == everyone(endpoint_->size());
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  World world() const { return {size(), per_node_}; }
  /// The same members, `per_node` of them after each other on a node.
  Group on_nodes(int per_node) const { return Group(endpoint_, members_, per_node); }
  /// Whether these are all ranks behind the endpoint, by their own numbers.
  bool is_everyone() const { return everyone_; }
  /// The endpoint's rank of member `i`.
  int member(int i) const { return members_[i]; }
  Endpoint& endpoint() const { return *endpoint_; }
  const std::shared_ptr<Endpoint>& shared_endpoint() const { return endpoint_; }
  Runtime& runtime() const { return endpoint_->runtime(); }
  /// What is exchanged lies there best (Endpoint::memory).
  Memory memory() const {
    return [endpoint = endpoint_](std::size_t bytes) { return endpoint->memory(bytes); };
  }

 private:
  static std::vector<int> everyone(int size) {
    std::vector<int> all(size);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  std::shared_ptr<Endpoint> endpoint_;
  std::vector<int> members_;
  int rank_ = 0;
  int per_node_ = 1;
  bool everyone_ = false;
};

}  // namespace ripieno
