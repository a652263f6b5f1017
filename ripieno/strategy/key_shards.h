// Which parameter server holds which numbers. The keys are the model's tensors; a tensor larger than a server's even
// share is cut, so that no server gets much more than its part of the bytes and of the work.
//
// 1. Cut every tensor of more than E = ceil(N / k) numbers into ceil(size / E) nearly equal pieces; halve the
//    largest until there are k.
// 2. Give the pieces, the largest first, each to the shard that holds the fewest numbers by then (Graham's rule).
//
// The largest shard holds at most N / k numbers and the largest piece, which has at most E.
// Source: Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014; Graham, Bounds on
// multiprocessing timing anomalies, SIAM J. Appl. Math. 17, 1969.
#pragma once

#include <vector>

#include "ripieno/strategy/learner.h"

namespace ripieno::strategy {

class KeyShards {
 public:
  /// `keys` are a partition of [0, elements), in any order. Throws Error(usage) for more shards than numbers.
  KeyShards(const std::vector<Range>& keys, std::size_t elements, int shards);
  explicit KeyShards(const Layout& layout, int shards);

  int count() const { return static_cast<int>(shards_.size()); }
  /// A shard's ranges of the flat parameters: ascending, disjoint, not empty.
  const std::vector<Range>& ranges(int shard) const { return shards_.at(static_cast<std::size_t>(shard)); }
  /// The number of elements in a shard, >= 1.
  std::size_t size(int shard) const;

  /// Copies a shard's numbers from the whole model (`flat`) to its own dense array (`compact`, in the order of
  /// ranges()), or back.
  void gather(int shard, NumberSpan compact, NumberSpan flat) const;
  void scatter(int shard, NumberSpan flat, NumberSpan compact) const;

 private:
  std::vector<std::vector<Range>> shards_;
};

}  // namespace ripieno::strategy
