// Divides a model's tensors into buckets, the units of exchange. A pure function of sizes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ripieno/strategy/learner.h"

namespace ripieno::train {

struct BucketOptions {
  std::size_t bucket_bytes = 25 << 20;  ///< a bucket takes whole tensors until it has at least so many bytes
  /// Whether to divide the tensor that ends the first bucket, if it has at least two bucket_bytes: each half of its
  /// rows (its first dimension) gets its own bucket. The forward pass through the last large layer, and the exchange of
  /// its gradient, can then go by halves. Only for exchanges that treat all numbers of a tensor alike.
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

/// `tensors` are consecutive from element 0 on; an element has `element_bytes`.
Buckets make_buckets(const std::vector<strategy::Layout::Tensor>& tensors, std::size_t element_bytes,
                     const BucketOptions& options);

}  // namespace ripieno::train
