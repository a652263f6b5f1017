#include "ripieno/train/buckets.h"

#include <gtest/gtest.h>

#include "ripieno/core/random.h"

namespace ripieno::train {
namespace {

/// One behind the other.
std::vector<strategy::Layout::Tensor> tensors_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<strategy::Layout::Tensor> tensors;
  std::size_t at = 0;
  for (const auto& shape : shapes) {
    std::size_t elements = 1;
    for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
    tensors.push_back({"t", shape, {at, at + elements}});
    at += elements;
  }
  return tensors;
}

TEST(Buckets, AnyTensorsArePartitionedFromTheEnd) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed, 0);
    const auto below = [&](std::uint64_t limit) { return static_cast<std::size_t>(random.next() % limit); };
    std::vector<std::vector<std::int64_t>> shapes(1 + below(12));
    for (auto& shape : shapes) {
      shape.resize(below(3));
      for (std::int64_t& size : shape) size = static_cast<std::int64_t>(below(9));
    }
    const auto tensors = tensors_of(shapes);
    const std::size_t all = tensors.back().range.end, element = seed % 2 == 0 ? 4 : 8;
    const BucketOptions options{.bucket_bytes = 1 + below(300), .divide = seed % 3 == 0};
    const Buckets buckets = make_buckets(tensors, element, options);

    std::size_t end = all, pieces = 0;
    ASSERT_EQ(buckets.pieces.size(), buckets.ranges.size());
    for (std::size_t i = 0; i < buckets.ranges.size(); ++i) {
      EXPECT_EQ(buckets.ranges[i].end, end);
      end = buckets.ranges[i].begin;
      const bool is_large = buckets.ranges[i].size() * element >= options.bucket_bytes;
      const bool holds_a_half = buckets.divided && buckets.of_tensor[*buckets.divided].back() == i;
      EXPECT_TRUE(is_large || holds_a_half || i + 1 == buckets.ranges.size()) << "bucket " << i << " is too small";
      EXPECT_GT(buckets.pieces[i], 0u);
      pieces += buckets.pieces[i];
    }
    EXPECT_EQ(end, 0u);

    ASSERT_EQ(buckets.of_tensor.size(), tensors.size());
    std::size_t found = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const bool divided = buckets.divided == i;
      EXPECT_EQ(buckets.of_tensor[i].size(), divided ? 2u : 1u);
      found += buckets.of_tensor[i].size();
      const Range& first = buckets.ranges[buckets.of_tensor[i].front()];
      const Range& last = buckets.ranges[buckets.of_tensor[i].back()];
      EXPECT_TRUE(first.begin <= tensors[i].range.begin && tensors[i].range.end <= last.end) << "tensor " << i;
      EXPECT_TRUE(divided || &first == &last);
    }
    EXPECT_EQ(found, pieces);
    EXPECT_EQ(buckets.divided_rows.size(), buckets.divided ? 2u : 0u);
    EXPECT_TRUE(options.divide || !buckets.divided);
  }
}

TEST(Buckets, TheTensorThatEndsTheFirstIsDividedWhereItIsLarge) {
  const auto tensors = tensors_of({{10}, {7, 100}, {50}});
  const Buckets buckets = make_buckets(tensors, 4, {.bucket_bytes = 1000, .divide = true});
  EXPECT_EQ(buckets.ranges, (std::vector<Range>{{10 + 300, 760}, {10, 310}, {0, 10}}));
  EXPECT_EQ(buckets.divided, 1u);
  EXPECT_EQ(buckets.divided_rows, (std::vector<Range>{{0, 3}, {3, 7}}));
  EXPECT_EQ(buckets.of_tensor, (std::vector<std::vector<std::size_t>>{{2}, {1, 0}, {0}}));
  EXPECT_EQ(buckets.pieces, (std::vector<std::size_t>{2, 1, 1}));

  EXPECT_FALSE(make_buckets(tensors, 4, {.bucket_bytes = 1000}).divided);
  EXPECT_FALSE(make_buckets(tensors, 4, {.bucket_bytes = 1401, .divide = true}).divided)
      << "the halves would be too small";
  EXPECT_FALSE(make_buckets(tensors_of({{7, 100}, {300}}), 4, {.bucket_bytes = 1000, .divide = true}).divided)
      << "another tensor ends the first bucket";
  EXPECT_FALSE(make_buckets(tensors_of({{1, 700}}), 4, {.bucket_bytes = 1000, .divide = true}).divided) << "one row";
}

}  // namespace
}  // namespace ripieno::train
