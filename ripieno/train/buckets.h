// How a model's tensors are divided into buckets, which are what is exchanged at once. A pure function of sizes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ripieno/strategy/learner.h"

namespace ripieno::train {

struct BucketOptions {
  std::size_t bucket_bytes = 25 << 20;  ///< a bucket takes whole tensors until it has at least so many bytes
  /// Whether the tensor that ends the first bucket, if it has two bucket_bytes or more, is divided: each half of its
  /// rows (its first dimension) lies in a bucket of its own. The last large layer can then go forward, and its gradient
  /// be exchanged, by halves. Only for exchanges that treat all numbers of a tensor alike.
  bool divide = false;
};

struct Buckets {
  /// A partition of the parameters, from the last to the first: the order in which a backward pass makes gradients
  /// ready.
  std::vector<Range> ranges;
  /// The buckets of each tensor, in the order of its rows: one, or two for the divided tensor.
  std::vector<std::vector<std::size_t>> of_tensor;
  /// The pieces in each bucket. A piece is a tensor, or a half of the divided one.
  std::vector<std::size_t> pieces;
  std::optional<std::size_t> divided;  ///< the divided tensor
  std::vector<Range> divided_rows;     ///< the rows of its halves
};

/// `tensors` lie one behind the other, from element 0 on; an element has `element_bytes`.
Buckets make_buckets(const std::vector<strategy::Layout::Tensor>& tensors, std::size_t element_bytes,
                     const BucketOptions& options);

}  // namespace ripieno::train
