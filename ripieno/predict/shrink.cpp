#include "ripieno/predict/shrink.h"

#include <algorithm>
#include <cmath>

namespace ripieno::predict {
namespace {

std::size_t part_of(std::size_t count, double factor) {
  return std::max<std::size_t>(std::min<std::size_t>(count, 1),
                               static_cast<std::size_t>(std::llround(static_cast<double>(count) / factor)));
}

/// Whether PowerSGD factors the matrix with rank r (collective/powersgd.h).
bool is_factored(std::size_t rows, std::size_t columns, std::size_t rank) {
  const std::size_t r = std::min({rank, rows, columns});
  return r > 0 && (rows + columns) * r < rows * columns;
}

strategy::Layout::Tensor shrunk(const strategy::Layout::Tensor& tensor, std::size_t begin, double factor,
                                const codec::CodecOptions& codec) {
  const std::size_t count = tensor.range.size(), fewer = part_of(count, factor);
  strategy::Layout::Tensor small{tensor.name, {static_cast<std::int64_t>(fewer)}, {begin, begin + fewer}};
  if (codec::find_codec(codec.name).kind != codec::CodecKind::low_rank || tensor.shape.size() < 2 || count == 0)
    return small;
  const auto rank = static_cast<std::size_t>(codec.rank), rows = static_cast<std::size_t>(tensor.shape[0]),
             columns = count / rows;
  if (!is_factored(rows, columns, rank)) return small;
  const auto side = [&](std::size_t of) { return std::max(std::min(of, 2 * rank + 1), part_of(of, factor)); };
  std::size_t height = side(rows), width = side(columns);
  if (!is_factored(height, width, rank)) height = rows, width = columns;
  return {tensor.name,
          {static_cast<std::int64_t>(height), static_cast<std::int64_t>(width)},
          {begin, begin + height * width}};
}

}  // namespace

strategy::Layout shrunk(const strategy::Layout& layout, double factor, const codec::CodecOptions& codec) {
  require(factor >= 1, "a model with ", factor, " times fewer numbers");
  strategy::Layout small;
  small.type = layout.type;
  small.buffers = part_of(layout.buffers, factor);
  for (const strategy::Layout::Tensor& tensor : layout.tensors) {
    small.tensors.push_back(shrunk(tensor, small.parameters, factor, codec));
    small.parameters = small.tensors.back().range.end;
  }
  const auto moved = [&](std::size_t place) {  // a boundary of buckets
    for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
      const Range from = layout.tensors[i].range, to = small.tensors[i].range;
      if (place <= from.begin) return to.begin;
      if (place < from.end) return to.begin + std::max<std::size_t>(1, to.size() * (place - from.begin) / from.size());
    }
    return small.parameters;
  };
  for (const Range bucket : layout.buckets) small.buckets.push_back({moved(bucket.begin), moved(bucket.end)});
  return small;
}

codec::CodecOptions shrunk(codec::CodecOptions codec, double factor) {
  const auto eighths = static_cast<std::size_t>(std::llround(static_cast<double>(codec.block) / factor / 8));
  codec.block = std::clamp<std::size_t>(8 * eighths, 8, codec.block);
  return codec;
}

std::vector<Duration> ready_in(const std::vector<Range>& buckets, const std::vector<Range>& measured,
                               const std::vector<Duration>& ready) {
  std::vector<Duration> times(buckets.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    for (std::size_t j = 0; j < measured.size(); ++j) {
      const bool meet = measured[j].begin < buckets[i].end && buckets[i].begin < measured[j].end;
      if (meet) times[i] = std::max(times[i], ready[j]);
    }
  }
  return times;
}

}  // namespace ripieno::predict
