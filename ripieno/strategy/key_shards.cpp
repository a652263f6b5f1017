#include "ripieno/strategy/key_shards.h"

#include <algorithm>

#include "ripieno/numeric/elementwise.h"

namespace ripieno::strategy {
namespace {

std::vector<Range> keys_of(const Layout& layout) {
  std::vector<Range> keys;
  for (const Layout::Tensor& tensor : layout.tensors) keys.push_back(tensor.range);
  return keys;
}

bool by_place(const Range& a, const Range& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; }
bool by_size(const Range& a, const Range& b) { return a.size() < b.size(); }
bool largest_first(const Range& a, const Range& b) { return a.size() != b.size() ? by_size(b, a) : by_place(a, b); }

void check_partition(std::vector<Range> keys, std::size_t elements) {
  std::sort(keys.begin(), keys.end(), by_place);
  std::size_t end = 0;
  for (const Range& key : keys) {
    require(key.begin == end && key.end >= key.begin, "keys: [", key.begin, ", ", key.end, ") follows ", end);
    end = key.end;
  }
  require(end == elements, "keys hold ", end, " numbers of ", elements);
}

/// The pieces in ascending order, with adjacent ones joined.
std::vector<Range> joined(std::vector<Range> pieces) {
  std::sort(pieces.begin(), pieces.end(), by_place);
  std::vector<Range> ranges;
  for (const Range& piece : pieces) {
    if (!ranges.empty() && ranges.back().end == piece.begin) {
      ranges.back().end = piece.end;
    } else {
      ranges.push_back(piece);
    }
  }
  return ranges;
}

}  // namespace

KeyShards::KeyShards(const Layout& layout, int shards) : KeyShards(keys_of(layout), layout.parameters, shards) {}

KeyShards::KeyShards(const std::vector<Range>& keys, std::size_t elements, int shards) {
  if (shards < 1) fail(ErrorKind::usage, "a model on ", shards, " servers; ps.servers is at least 1");
  const auto count = static_cast<std::size_t>(shards);
  if (count > elements) {
    fail(ErrorKind::usage, "a model of ", elements, " numbers on ", shards, " servers; lower ps.servers to ", elements,
         " at most");
  }
  check_partition(keys, elements);

  const std::size_t even = (elements + count - 1) / count;
  std::vector<Range> pieces;
  for (const Range& key : keys) {  // 1
    const auto parts = static_cast<int>((key.size() + even - 1) / even);
    for (int i = 0; i < parts; ++i) {
      const Range part = chunk(key.size(), parts, i);
      pieces.push_back({key.begin + part.begin, key.begin + part.end});
    }
  }

  while (pieces.size() < count) {
    const auto most = std::max_element(pieces.begin(), pieces.end(), by_size);
    const Range half{most->begin + most->size() / 2, most->end};
    most->end = half.begin;
    pieces.push_back(half);
  }

  std::sort(pieces.begin(), pieces.end(), largest_first);  // 2
  std::vector<std::size_t> held(count, 0);
  shards_.resize(count);
  for (const Range& piece : pieces) {
    const auto least = static_cast<std::size_t>(std::min_element(held.begin(), held.end()) - held.begin());
    held[least] += piece.size();
    shards_[least].push_back(piece);
  }
  for (auto& shard : shards_) shard = joined(std::move(shard));
}

std::size_t KeyShards::size(int shard) const {
  std::size_t sum = 0;
  for (const Range& range : ranges(shard)) sum += range.size();
  return sum;
}

void KeyShards::gather(int shard, NumberSpan compact, NumberSpan flat) const {
  std::size_t at = 0;
  for (const Range& range : ranges(shard)) {
    numeric::convert(compact.slice(at, at + range.size()), flat.slice(range.begin, range.end));
    at += range.size();
  }
}

void KeyShards::scatter(int shard, NumberSpan flat, NumberSpan compact) const {
  std::size_t at = 0;
  for (const Range& range : ranges(shard)) {
    numeric::convert(flat.slice(range.begin, range.end), compact.slice(at, at + range.size()));
    at += range.size();
  }
}

}  // namespace ripieno::strategy
