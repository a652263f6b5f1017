#include "ripieno/train/buckets.h"

#include <algorithm>
#include <utility>

namespace ripieno::train {

Buckets make_buckets(const std::vector<strategy::Layout::Tensor>& tensors, std::size_t element_bytes,
                     const BucketOptions& options) {
  Buckets buckets;
  buckets.of_tensor.resize(tensors.size());
  std::size_t end = tensors.empty() ? 0 : tensors.back().range.end, pieces = 0;
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const strategy::Layout::Tensor& tensor = tensors[i];
    const std::size_t rows =
        tensor.shape.empty() ? 1 : std::max<std::size_t>(1, static_cast<std::size_t>(tensor.shape[0]));
    const bool in_halves = options.divide && buckets.ranges.empty() && rows > 1 &&
                           tensor.range.size() * element_bytes >= 2 * options.bucket_bytes;
    if (in_halves) buckets.divided = i;
    const int parts = in_halves ? 2 : 1;  // with four parts, slower matrix products would cost more than is gained
    for (int part = parts; part-- > 0;) {
      const Range some = chunk(rows, parts, part);
      buckets.of_tensor[i].insert(buckets.of_tensor[i].begin(), buckets.ranges.size());
      if (in_halves) buckets.divided_rows.insert(buckets.divided_rows.begin(), some);
      ++pieces;
      const std::size_t begin = tensor.range.begin + some.begin * (tensor.range.size() / rows);
      if (part == 0 && i > 0 && (end - begin) * element_bytes < options.bucket_bytes) continue;
      buckets.ranges.push_back({begin, end});
      buckets.pieces.push_back(std::exchange(pieces, 0));
      end = begin;
    }
  }
  return buckets;
}

}  // namespace ripieno::train
